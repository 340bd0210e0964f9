#pragma once

#include <spdlog/sinks/ostream_sink.h>

#include <memory>
#include <sstream>
#include <string>
#include <utility>

#include "executor/support/log.h"

namespace metronome::tests {

/// Keeps the text that is logged while it lives.
class Logged {
 public:
  Logged() {
    auto sink = std::make_shared<spdlog::sinks::ostream_sink_st>(text_);
    sink->set_pattern("%l: %v");
    executor::logger().sinks().push_back(std::move(sink));
  }
  ~Logged() { executor::logger().sinks().pop_back(); }
  Logged(const Logged&) = delete;
  Logged& operator=(const Logged&) = delete;
  std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
};

}  // namespace metronome::tests
