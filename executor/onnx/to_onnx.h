// A compiled graph's evaluation as an ONNX model, for runtimes that know nothing of Metronome.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "executor/run/executable.h"

namespace metronome {

struct OnnxOptions {
  /// The version of ONNX's operators: 17, which runtimes have had since 2022, or 23, which has
  /// attention and root mean square norms, too.
  std::int64_t opset = 17;
  /// Averages of the parameters in their place, as of `Executable::evaluate`.
  std::string_view with = {};
  /// One of the graphs that were compiled together; by default all of them, which then differ in
  /// sizes alone.
  GraphChoice graph = {};
};

/// Writes the evaluation that `step` was compiled to as one file, with the numbers that the
/// storages hold now. Inputs, outputs and weights have their names and paths; states are inputs.
/// If `step` was compiled to `Mode::advance`, states' next values are further outputs, called
/// "PATH/next".
///
/// Sizes that differ between graphs that were compiled together are dimensions with names, made of
/// the first input that has them: "x_0" of dimension 0 of "x". Sizes that are equal in all of these
/// graphs are taken for one. An output that is called as an input gets "_2" behind its name. Above
/// 2 GB weights lie in a file beside it, FILE.data.
///
/// Throws RunError, having written nothing, where `step` was not compiled to evaluate, an op means
/// something that ONNX cannot say, or the file cannot be written.
void to_onnx(Executable& step, const std::string& file, const OnnxOptions& options = {});

}  // namespace metronome
