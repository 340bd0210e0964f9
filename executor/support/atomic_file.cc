#include "executor/support/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "graph/ir/error.h"

namespace metronome::executor {

AtomicFile::AtomicFile(const std::string& file) : file_(file) {
  if (file.empty()) fail(ENOENT);
  std::error_code ignored;
  const std::filesystem::path real = std::filesystem::canonical(file, ignored);
  const std::filesystem::path path = ignored ? std::filesystem::path(file) : real;
  const std::filesystem::path parent = path.has_parent_path() ? path.parent_path() : ".";
  name_ = path.filename();

  directory_ = Descriptor(::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory_.present()) fail(errno);
  struct ::stat old = {};
  const bool replaces = !name_.empty() && ::fstatat(directory_.get(), name_.c_str(), &old, 0) == 0;
  if (name_.empty() || (replaces && S_ISDIR(old.st_mode))) fail(EISDIR);
  if (replaces && !S_ISREG(old.st_mode)) {
    throw RunError(fmt::format("{}: cannot be saved: it is a device, a pipe or a socket", file_));
  }

  // A name that exists is left alone: another process may be writing it (process numbers repeat
  // between containers that share a directory). The name is cut so that the suffix always fits.
  int fd = -1;
  for (int attempt = 0; fd < 0; ++attempt) {
    temporary_ = fmt::format("{}.partial-{}-{}", name_.substr(0, 200), ::getpid(), attempt);
    fd = ::openat(directory_.get(), temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                  0666);
    if (fd < 0 && errno != EEXIST && errno != EINTR) {
      temporary_.clear();
      fail(errno);
    }
  }
  descriptor_ = Descriptor(fd);
  // Best effort: a file system without permissions is no reason not to save.
  if (replaces && ::fchmod(fd, old.st_mode & 0777) != 0) errno = 0;
}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty()) ::unlinkat(directory_.get(), temporary_.c_str(), 0);
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail(written < 0 ? errno : EIO);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void AtomicFile::commit() {
  if (::fsync(descriptor_.get()) != 0) fail(errno);
  if (::renameat(directory_.get(), temporary_.c_str(), directory_.get(), name_.c_str()) != 0) {
    fail(errno);
  }
  temporary_.clear();
  // The new name survives a power cut only with the directory; some file systems cannot and say
  // EINVAL.
  if (::fsync(directory_.get()) != 0 && errno != EINVAL) fail(errno);
}

void AtomicFile::fail(int error) const {
  throw RunError(
      fmt::format("{}: cannot be saved: {}", file_, std::generic_category().message(error)));
}

}  // namespace metronome::executor
