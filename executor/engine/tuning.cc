// A `TuningFile` reads the file when it is made, and `save` merges into it what this process timed:
//
//   usable   a damaged file is renamed to <path>.damaged; one that cannot be read is not used
//   find     a choice that was timed without load, else one that was timed under load, as long as
//            there is load, this process has used it, or nothing can be timed anew
//   add      keeps a choice for `find`, and beside it for `save`
//   save     reads the file again, adds the new choices and replaces the file as a whole
//
// Choices that other processes have saved meanwhile stay. A choice that was timed without load
// replaces one that was timed under load, never the other way round.
#include "executor/engine/tuning.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <system_error>
#include <utility>

#include "executor/support/atomic_file.h"
#include "executor/support/log.h"
#include "graph/ir/error.h"
#include "ops/cpu/table.h"
#include "ops/cpu/versions.h"

namespace metronome::executor {
namespace {

constexpr const char* kFormat = "metronome-tuning-1";

/// Why a file cannot be used.
struct FileRefusal {
  std::string why;
  bool damaged = false;  ///< it was read, and makes no sense
};

/// The file's bytes; nothing where there is no such file.
std::optional<std::string> text_of(const std::string& path) {
  const auto unreadable = [](int error) {
    return FileRefusal{
        fmt::format("it cannot be read: {}", std::generic_category().message(error))};
  };
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found) return std::nullopt;
  if (error) throw unreadable(error.value());
  if (std::filesystem::is_directory(status)) throw FileRefusal{"it is a directory"};
  if (!std::filesystem::is_regular_file(status)) throw FileRefusal{"it is not a regular file"};
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  if (!in.is_open() || in.bad()) throw unreadable(errno == 0 ? EIO : errno);
  return text.str();
}

/// Throws FileRefusal.
TunedChoices choices_in(const std::string& path) {
  if (path.empty()) return {};
  const std::optional<std::string> text = text_of(path);
  if (!text) return {};
  const auto refuse = [](std::string why) { throw FileRefusal{std::move(why), true}; };
  const nlohmann::json json = nlohmann::json::parse(*text, nullptr, false);
  if (text->empty()) refuse("it is empty");
  if (json.is_discarded()) refuse("it is not JSON");
  if (!json.is_object() || json.value("format", "") != kFormat) {
    refuse(fmt::format("its \"format\" is not \"{}\"", kFormat));
  }
  if (!json.contains("choices") || !json["choices"].is_object()) refuse("it has no \"choices\"");
  TunedChoices all;
  for (const char* part : {"under_load", "choices"}) {
    if (!json.contains(part) || !json[part].is_object()) continue;
    for (const auto& [key, choice] : json[part].items()) {
      if (!choice.is_string()) refuse(fmt::format("the choice of \"{}\" is not a string", key));
      all.add(key, choice.get<std::string>(), part == std::string_view("under_load"));
    }
  }
  return all;
}

TunedChoices read_choices(const std::string& path) {
  try {
    return choices_in(path);
  } catch (const FileRefusal& wrong) {
    throw RunError(
        fmt::format("{}: cannot be used as a tuning file: {}; delete it, or name another "
                    "one with CompileOptions::tuning_file or, if that is empty, METRONOME_TUNING",
                    path, wrong.why));
  }
}

/// Tells whether a choice that was timed under load is used all the same, by file and key: a
/// process keeps to it.
bool is_used_here(const std::string& path, const std::string& key, bool from_now_on) {
  static std::mutex mutex;
  static std::set<std::pair<std::string, std::string>> used;
  const std::scoped_lock lock(mutex);
  if (from_now_on) used.emplace(path, key);
  return used.contains({path, key});
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
  } catch (const FileRefusal& wrong) {
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
    logger().warn(
        "the tuning file {} is not used: {}{}; name another one with CompileOptions::tuning_file "
        "or, if that is empty, METRONOME_TUNING",
        path, wrong.why,
        error ? fmt::format(", and cannot be set aside: {}", error.message()) : "");
    return "";
  }
}

void TunedChoices::add(const std::string& key, const std::string& choice, bool loaded) {
  if (loaded && quiet.contains(key)) return;
  (loaded ? under_load : quiet)[key] = choice;
  if (!loaded) under_load.erase(key);
}

void TunedChoices::add(const TunedChoices& more) {
  for (const auto& [key, choice] : more.under_load) add(key, choice, true);
  for (const auto& [key, choice] : more.quiet) add(key, choice, false);
}

TuningFile::TuningFile(std::string path) : path_(std::move(path)), choices_(read_choices(path_)) {}

std::optional<std::string> TuningFile::find(const std::string& key, bool anew) const {
  if (const auto found = choices_.quiet.find(key); found != choices_.quiet.end())
    return found->second;
  const auto found = choices_.under_load.find(key);
  if (found == choices_.under_load.end()) return std::nullopt;
  bool told = true;
  const bool holds =
      !anew || is_used_here(path_, key, false) || timed_under_load(LoadWatch(), true, told);
  return holds && is_used_here(path_, key, true) ? std::optional(found->second) : std::nullopt;
}

void TuningFile::add(const std::string& key, const std::string& choice, bool under_load) {
  choices_.add(key, choice, under_load);
  added_.add(key, choice, under_load);
  if (under_load) is_used_here(path_, key, true);
}

void TuningFile::save() {
  if ((added_.quiet.empty() && added_.under_load.empty()) || path_.empty()) return;
  TunedChoices all = read_choices(path_);
  all.add(added_);
  nlohmann::json json = {{"format", kFormat}, {"choices", all.quiet}};
  if (!all.under_load.empty()) json["under_load"] = all.under_load;
  std::error_code ignored;  // the write below says what is wrong
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), ignored);
  const std::string text = json.dump(1) + "\n";
  AtomicFile file(path_);
  file.write(std::as_bytes(std::span(text)));
  file.commit();
  added_ = {};
}

void TuningFile::save_or_warn() {
  try {
    save();
  } catch (const RunError& error) {
    logger().warn("kernel choices are not kept: {}", error.what());
  }
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

bool timed_under_load(const LoadWatch& watch, bool steady, bool& told) {
  const double share = watch.share();
  if (share <= (steady ? kMuchLoad : kSomeLoad)) return false;
  if (!std::exchange(told, true)) {
    logger().warn(
        "kernels are timed while other programs take {:.0f} % of the cores; a later program times "
        "them again when these have gone",
        100 * share);
  }
  return true;
}

}  // namespace metronome::executor
