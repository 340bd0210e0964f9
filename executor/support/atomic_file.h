// A file that is replaced whole or not at all.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "executor/support/descriptor.h"

namespace metronome::executor {

/// Writes to a temporary name in the same directory, "NAME.partial-PID-N"; `commit` flushes it to
/// the disk and renames it over FILE. Until then, whatever happens (an error, a kill, a power cut),
/// FILE is what it was; without `commit` the destructor removes the temporary file. A killed
/// process leaves its temporary file behind, which nothing reads.
///
/// A symbolic link is followed, so that it stays one; the permissions of a replaced file are kept.
/// Every failure is a RunError "FILE: cannot be saved: <the system's reason>".
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& file);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void commit();

 private:
  [[noreturn]] void fail(int error) const;

  std::string file_;       // as the caller wrote it
  std::string name_;       // its last part, links followed
  std::string temporary_;  // empty when there is none to remove
  Descriptor directory_;
  Descriptor descriptor_;
};

}  // namespace metronome::executor
