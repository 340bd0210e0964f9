// Whose mistake it is: the model's (GraphError), the call's (RunError) or ours (InternalError).
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

namespace metronome {

/// The user's mistakes in a graph, all of them in one report.
class GraphError : public std::runtime_error {
 public:
  explicit GraphError(std::vector<std::string> mistakes);
  const std::vector<std::string>& mistakes() const { return mistakes_; }

 private:
  std::vector<std::string> mistakes_;
};

/// The user's mistake in using an executable, a file, an argument or the environment; or a library
/// that failed in a step. The call that throws it has changed nothing, but for a step that says so.
class RunError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A rank of those that train together is lost: this process can run no further step with it.
class LostRank : public RunError {
 public:
  using RunError::RunError;
};

/// A device is lost: this process can run nothing on it any more.
class LostDevice : public RunError {
 public:
  using RunError::RunError;
};

/// Metronome's own mistake; the message asks for a report.
class InternalError : public std::logic_error {
 public:
  explicit InternalError(const std::string& what);
};

/// The exception of a shape rule: the requirement that its operands do not meet, with the numbers,
/// and the way out if there is one. The builder adds the op, its line and its operands.
struct Requirement {
  std::string requires_;
  std::string way_out = "";
};

}  // namespace metronome
