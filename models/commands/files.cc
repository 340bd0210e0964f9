#include "models/commands/files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "graph/ir/error.h"

namespace metronome::commands {

void expect_writable(const std::string& file) {
  if (file.empty()) throw RunError("\"\": cannot be written: it names no file");
  const std::filesystem::path path(file);
  if (std::filesystem::is_directory(path)) {
    throw RunError(fmt::format("{}: is a folder, not a file to write", file));
  }
  const std::string folder = path.has_parent_path() ? path.parent_path().string() : ".";
  if (access(folder.c_str(), W_OK | X_OK) != 0) {
    throw RunError(
        fmt::format("{}: cannot be written: {}: {}", file, folder, std::strerror(errno)));
  }
}

void write_whole(const std::string& file, const std::string& text) {
  expect_writable(file);
  const std::string partial = file + ".partial";
  std::ofstream out(partial);
  out << text;
  out.close();
  std::error_code error;
  if (out) std::filesystem::rename(partial, file, error);
  if (out && !error) return;
  const std::string reason = error ? error.message() : std::strerror(errno);
  std::filesystem::remove(partial, error);
  throw RunError(fmt::format("{}: cannot be written: {}", file, reason));
}

std::string read_whole(const std::string& file) {
  if (std::filesystem::is_directory(file)) {
    throw RunError(fmt::format("{}: cannot be read: it is a folder", file));
  }
  std::ifstream in(file, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in) throw RunError(fmt::format("{}: cannot be read: {}", file, std::strerror(errno)));
  return text;
}

}  // namespace metronome::commands
