// A device's library, played on the host.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "graph/ir/error.h"
#include "ops/cuda/library.h"

namespace metronome {

class HostLibrary {
 public:
  virtual ~HostLibrary() = default;
  /// True for the calls that the rest takes.
  virtual bool makes(const LibraryCommand& call) const = 0;
  virtual std::vector<Candidate> candidates(const LibraryCommand& call) const = 0;
  /// Throws InternalError, by `refuse`, for what is wrong with this kind of call.
  virtual void check(const LibraryCommand& call) const = 0;
  /// Returns the number of its nodes in a captured graph.
  virtual int nodes(const LibraryCommand& call) const = 0;
  /// Computes it on the host's memory.
  virtual void run(const LibraryCommand& call) const = 0;
};

[[noreturn]] inline void refuse(const LibraryCommand& call, const std::string& what) {
  throw InternalError(fmt::format("{} {}: {}", call.name(), call.text(), what));
}

}  // namespace metronome
