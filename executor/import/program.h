// A model that PyTorch exported, as a layer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "graph/ir/line.h"
#include "graph/ir/value.h"

namespace metronome {

struct ProgramOptions {
  std::string model = {};  ///< of an archive that holds several
  /// The most iterations of each while_loop, which a file with one asks for. The results of one
  /// that would go on are NaN, those of integers -2^52, or -2^30 of i32. Each iteration is
  /// unrolled.
  std::int64_t max_iterations = 0;
};

/// A file of torch.export.save (torch 2.11; schema 8): a graph of ATen's ops in training form with
/// its weights. Each call adds its nodes to the graph of its operands:
///
///   x.through(program("encoder.pt2"))          one input, its first output
///   program("pair.pt2")({x, y})                all inputs, all outputs
///
/// Parameters and buffers have the file's names with "/" for ".": "layer1/0/conv1/weight", at the
/// current path, and begin with the file's numbers. A parameter that requires no gradient is frozen
/// (`Graph::freeze`). Operands must have the types with which the file was exported; a size that
/// the file leaves open is the operand's. Every value is held to the type that the file gives it.
class Program {
 public:
  /// Throws RunError where the file cannot be read, or has ops without a counterpart, and lists
  /// them all with the lines of Python that call them.
  explicit Program(const std::string& file, ProgramOptions options = {});

  /// The outputs of the file, in order; poisoned after a mistake.
  Values operator()(const Values& inputs, Line line = Line::here()) const;
  /// The first output, of a program of one input.
  Value operator()(Value input, Line line = Line::here()) const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

/// The program of a file; throws as its constructor does.
Program program(const std::string& file, ProgramOptions options = {});

}  // namespace metronome
