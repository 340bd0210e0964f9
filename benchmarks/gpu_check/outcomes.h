// What a program of the GPU check finds: printed as it goes, and kept as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace metronome::gpu_check {

/// One thing that was checked.
struct Outcome {
  std::string subject;  ///< "mlp, small"
  std::string check;    ///< "replay equals stepwise, bit for bit"
  bool passed = false;
  std::string detail;  ///< what was seen
};

class Outcomes {
 public:
  /// Prints it too. What throws while it is checked fails, with the exception's text.
  void add(Outcome outcome);
  /// Runs `check`, which gives what was seen and whether that is right.
  template <class Check>
  void run(std::string subject, std::string name, Check check) {
    Outcome outcome{std::move(subject), std::move(name), false, ""};
    try {
      check(outcome);
    } catch (const std::exception& error) {
      outcome.passed = false;
      outcome.detail = error.what();
    }
    add(std::move(outcome));
  }

  /// {"device", "passed", "failed", "outcomes": [...]}, written to `file` where there is one.
  /// Returns the program's exit status: 0, or 1 where anything failed or nothing was checked.
  int finish(const std::optional<std::string>& file) const;

  std::string device;

 private:
  std::vector<Outcome> outcomes_;
};

/// The exit status of a program that cannot do its work on this machine; its last line says why.
constexpr int kUnavailable = 3;

/// The name of CUDA device 0. Prints why there is none, where it throws RunError, and gives
/// nothing.
std::optional<std::string> device_or_reason();

}  // namespace metronome::gpu_check
