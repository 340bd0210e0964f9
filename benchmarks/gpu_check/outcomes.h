// The outcomes of a program of the GPU check: printed, and kept as JSON lines, as it goes.
#pragma once

#include <fstream>
#include <optional>
#include <string>

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
  /// Each outcome becomes one line of `file`, where there is one, at once: what comes after may
  /// crash. Throws RunError where it cannot be written.
  Outcomes(std::string device, const std::optional<std::string>& file);

  void add(const Outcome& outcome);
  /// Runs `check`, which gives what was seen and whether that is right. An exception that it throws
  /// fails it, with the exception's text.
  template <class Check>
  void run(std::string subject, std::string name, Check check) {
    Outcome outcome{std::move(subject), std::move(name), false, ""};
    try {
      check(outcome);
    } catch (const std::exception& error) {
      outcome.passed = false;
      outcome.detail = error.what();
    }
    add(outcome);
  }

  /// Prints the counts. Returns the program's exit status: 0, or 1 where anything failed or nothing
  /// was checked.
  int finish() const;

 private:
  std::string device_;
  std::optional<std::ofstream> lines_;
  int passed_ = 0, failed_ = 0;
};

/// The exit status of a program that cannot do its work on this machine; its last line says why.
constexpr int kUnavailable = 3;

/// The name of CUDA device 0. Prints why there is none, where it throws RunError, and gives
/// nothing.
std::optional<std::string> device_or_reason();

}  // namespace metronome::gpu_check
