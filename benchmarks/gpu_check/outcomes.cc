#include "benchmarks/gpu_check/outcomes.h"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "executor/cuda/driver/driver.h"
#include "graph/ir/error.h"

namespace metronome::gpu_check {

Outcomes::Outcomes(std::string device, const std::optional<std::string>& file)
    : device_(std::move(device)) {
  if (!file) return;
  lines_.emplace(*file);
  if (!*lines_) throw RunError(fmt::format("{}: cannot be written", *file));
}

void Outcomes::add(const Outcome& o) {
  ++(o.passed ? passed_ : failed_);
  fmt::print("{}  {}: {}{}{}\n", o.passed ? "ok    " : "FAILED", o.subject, o.check,
             o.detail.empty() ? "" : ": ", o.detail);
  std::fflush(stdout);
  if (!lines_) return;
  const nlohmann::ordered_json row = {
      {"subject", o.subject}, {"check", o.check}, {"passed", o.passed}, {"detail", o.detail}};
  // Texts of failed checks may hold any bytes.
  *lines_ << row.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << std::endl;
}

int Outcomes::finish() const {
  fmt::print("{} passed, {} failed on {}\n", passed_, failed_, device_);
  return failed_ == 0 && passed_ > 0 ? 0 : 1;
}

std::optional<std::string> device_or_reason() {
  try {
    return open_cuda(0)->properties().name;
  } catch (const RunError& error) {
    fmt::print("{}\n", error.what());
    return std::nullopt;
  }
}

}  // namespace metronome::gpu_check
