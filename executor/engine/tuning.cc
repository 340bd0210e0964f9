#include "executor/engine/tuning.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>

#include "executor/support/atomic_file.h"
#include "executor/support/log.h"
#include "graph/ir/error.h"
#include "ops/cpu/table.h"
#include "ops/cpu/versions.h"

namespace metronome::executor {
namespace {

constexpr const char* kFormat = "metronome-tuning-1";

/// Why a file cannot be used.
struct Wrong {
  std::string why;
  bool damaged = false;  ///< it was read, and makes no sense
};

/// The file's bytes; nothing where there is no such file.
std::optional<std::string> text_of(const std::string& path) {
  const auto unreadable = [](int error) {
    return Wrong{fmt::format("it cannot be read: {}", std::generic_category().message(error))};
  };
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found) return std::nullopt;
  if (error) throw unreadable(error.value());
  if (std::filesystem::is_directory(status)) throw Wrong{"it is a directory"};
  if (!std::filesystem::is_regular_file(status)) throw Wrong{"it is not a regular file"};
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  if (!in.is_open() || in.bad()) throw unreadable(errno == 0 ? EIO : errno);
  return text.str();
}

/// Throws Wrong.
std::map<std::string, std::string> choices_in(const std::string& path) {
  if (path.empty()) return {};
  const std::optional<std::string> text = text_of(path);
  if (!text) return {};
  const auto refuse = [](std::string why) { throw Wrong{std::move(why), true}; };
  const nlohmann::json json = nlohmann::json::parse(*text, nullptr, false);
  if (text->empty()) refuse("it is empty");
  if (json.is_discarded()) refuse("it is not JSON");
  if (!json.is_object() || json.value("format", "") != kFormat) {
    refuse(fmt::format("its \"format\" is not \"{}\"", kFormat));
  }
  if (!json.contains("choices") || !json["choices"].is_object()) refuse("it has no \"choices\"");
  std::map<std::string, std::string> choices;
  for (const auto& [key, choice] : json["choices"].items()) {
    if (!choice.is_string()) refuse(fmt::format("the choice of \"{}\" is not a string", key));
    choices[key] = choice.get<std::string>();
  }
  return choices;
}

std::map<std::string, std::string> read_choices(const std::string& path) {
  try {
    return choices_in(path);
  } catch (const Wrong& wrong) {
    throw RunError(
        fmt::format("{}: cannot be used as a tuning file: {}; delete it, or name another "
                    "one with METRONOME_TUNING",
                    path, wrong.why));
  }
}

std::string cpu_model() {
  std::ifstream in("/proc/cpuinfo");
  std::string line;
  while (std::getline(in, line)) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown CPU";
}

}  // namespace

std::string TuningFile::usable(const std::string& path) {
  try {
    choices_in(path);
    return path;
  } catch (const Wrong& wrong) {
    const std::string aside = path + ".damaged";
    std::error_code error;
    if (wrong.damaged) std::filesystem::rename(path, aside, error);
    if (wrong.damaged && !error) {
      logger().warn("the tuning file {} is set aside as {}: {}; kernels are timed anew", path,
                    aside, wrong.why);
      return path;
    }
    // Another process may have set it aside meanwhile.
    if (error == std::errc::no_such_file_or_directory) return path;
    logger().warn("the tuning file {} is not used: {}{}; name another one with METRONOME_TUNING",
                  path, wrong.why,
                  error ? fmt::format(", and cannot be set aside: {}", error.message()) : "");
    return "";
  }
}

TuningFile::TuningFile(std::string path) : path_(std::move(path)), choices_(read_choices(path_)) {}

std::optional<std::string> TuningFile::find(const std::string& key) const {
  const auto found = choices_.find(key);
  return found == choices_.end() ? std::nullopt : std::optional(found->second);
}

void TuningFile::add(const std::string& key, const std::string& choice) {
  choices_[key] = added_[key] = choice;
}

void TuningFile::save() {
  if (added_.empty() || path_.empty()) return;
  std::map<std::string, std::string> all = read_choices(path_);
  for (const auto& [key, choice] : added_) all[key] = choice;
  const nlohmann::json json = {{"format", kFormat}, {"choices", all}};
  std::error_code ignored;  // the write below says what is wrong
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), ignored);
  const std::string text = json.dump(1) + "\n";
  AtomicFile file(path_);
  file.write(std::as_bytes(std::span(text)));
  file.commit();
  added_.clear();
}

std::string TuningFile::default_path() {
  if (const char* path = std::getenv("METRONOME_TUNING"); path != nullptr && *path != '\0')
    return path;
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != '\0') {
    return fmt::format("{}/metronome/tuning.json", cache);
  }
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') {
    return fmt::format("{}/.cache/metronome/tuning.json", home);
  }
  return (std::filesystem::temp_directory_path() / "metronome-tuning.json").string();
}

std::string machine_key(int threads) {
  static const std::string kModel = cpu_model();
  return fmt::format("{} | {} | {} threads | {}", kModel, cpu_table().isa(), threads,
                     cpu_library_versions());
}

}  // namespace metronome::executor
