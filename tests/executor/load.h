// A load of other programs, as the choice of kernels is told of it.
#pragma once

#include <fmt/format.h>

#include <memory>

#include "executor/support/load_watch.h"

namespace metronome::tests {

/// While it lives others take this share of the machine's one core; then none.
class Load {
 public:
  explicit Load(double share) { executor::load_meter() = others(share); }
  ~Load() { executor::load_meter() = others(0); }
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;

 private:
  static executor::LoadMeter others(double share) {
    const auto now = std::make_shared<double>(0);
    return executor::LoadMeter({.stat =
                                    [now, share] {
                                      const auto ticks = static_cast<long long>(share * *now * 1e6);
                                      return fmt::format("cpu0 {} 0 0 0 0 0 0 0\n", ticks);
                                    },
                                .may_use = [](int) { return true; },
                                .process_seconds = [] { return 0.0; },
                                .now = [now] { return *now += 1; },
                                .wait = {},
                                .ticks_a_second = 1e6});
  }
};

}  // namespace metronome::tests
