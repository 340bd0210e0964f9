#include "executor/monitor/appended_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "graph/ir/error.h"

namespace metronome::executor {

void cannot(const std::filesystem::path& file, std::string_view doing, std::string_view why) {
  throw RunError(fmt::format("{}: cannot be {}: {}", file.string(), doing, why));
}

AppendedFile::AppendedFile(std::filesystem::path file) : path_(std::move(file)) {
  file_ = std::fopen(path_.c_str(), "ab");
  if (file_ == nullptr) fail();
}
AppendedFile::~AppendedFile() { std::fclose(file_); }

void AppendedFile::write(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), file_) != text.size()) fail();
}
void AppendedFile::flush() {
  if (std::fflush(file_) != 0) fail();
}
void AppendedFile::fail() const { cannot(path_, "written", std::strerror(errno)); }

}  // namespace metronome::executor
