// Kernel choices that ranks which train together have in common.
#pragma once

#include <string>

#include "executor/engine/report.h"
#include "executor/options/target.h"

namespace metronome::executor::compile {

/// Bits depend on kernel choices, so rank 0 times kernels, and the others take its choices; those
/// on another kind of machine, or of other threads, choose their own, and the report says so. Does
/// nothing without `CompileOptions::data_parallel`, or where nothing is timed or looked up.
class FirstChoices {
 public:
  /// On ranks but the first: waits for its choices, and makes them the options' tuning file.
  FirstChoices(CompileOptions& options, Report& report);
  /// Removes that file.
  ~FirstChoices();
  FirstChoices(const FirstChoices&) = delete;
  FirstChoices& operator=(const FirstChoices&) = delete;

  /// On the first, when all is chosen: tells the others.
  void tell();

 private:
  void note(const std::string& others);

  CompileOptions& options_;
  Report& report_;
  bool shared_;
  std::string machine_;
  std::string file_;  ///< made here; empty: none was
};

}  // namespace metronome::executor::compile
