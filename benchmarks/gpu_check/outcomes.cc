#include "benchmarks/gpu_check/outcomes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "executor/cuda/driver.h"
#include "graph/error.h"

namespace metronome::gpu_check {

void Outcomes::add(Outcome outcome) {
  fmt::print("{}  {}: {}{}{}\n", outcome.passed ? "ok    " : "FAILED", outcome.subject,
             outcome.check, outcome.detail.empty() ? "" : ": ", outcome.detail);
  std::fflush(stdout);
  outcomes_.push_back(std::move(outcome));
}

int Outcomes::finish(const std::optional<std::string>& file) const {
  const auto passed = std::ranges::count(outcomes_, true, &Outcome::passed);
  const auto failed = std::ranges::count(outcomes_, false, &Outcome::passed);
  fmt::print("{} passed, {} failed on {}\n", passed, failed, device);
  if (file) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const Outcome& o : outcomes_) {
      rows.push_back(
          {{"subject", o.subject}, {"check", o.check}, {"passed", o.passed}, {"detail", o.detail}});
    }
    const nlohmann::ordered_json all = {
        {"device", device}, {"passed", passed}, {"failed", failed}, {"outcomes", rows}};
    // Texts of failed checks may hold any bytes.
    std::ofstream(*file) << all.dump(1, ' ', false, nlohmann::json::error_handler_t::replace)
                         << "\n";
  }
  return failed == 0 && passed > 0 ? 0 : 1;
}

std::optional<std::string> device_or_reason() {
  try {
    return open_cuda(0)->facts().name;
  } catch (const RunError& error) {
    fmt::print("{}\n", error.what());
    return std::nullopt;
  }
}

}  // namespace metronome::gpu_check
