// A file that is written at its end.
#pragma once

#include <cstdio>
#include <filesystem>
#include <string_view>

namespace metronome::executor {

/// Throws RunError: "FILE: cannot be DOING: WHY".
[[noreturn]] void cannot(const std::filesystem::path& file, std::string_view doing,
                         std::string_view why);

/// Each call throws RunError where the system refuses.
class AppendedFile {
 public:
  /// Makes the file where there is none.
  explicit AppendedFile(std::filesystem::path file);
  ~AppendedFile();
  AppendedFile(const AppendedFile&) = delete;
  AppendedFile& operator=(const AppendedFile&) = delete;

  int descriptor() const { return fileno(file_); }
  void write(std::string_view text);
  void flush();

 private:
  [[noreturn]] void fail() const;

  std::filesystem::path path_;
  std::FILE* file_;
};

}  // namespace metronome::executor
