#include "executor/tuning.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "executor/atomic_file.h"
#include "graph/error.h"
#include "ops/cpu/table.h"
#include "ops/cpu/versions.h"

namespace metronome {
namespace {

constexpr const char* kFormat = "metronome-tuning-1";

std::map<std::string, std::string> read_choices(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return {};
  std::stringstream text;
  text << in.rdbuf();
  const auto refuse = [&](const std::string& why) {
    throw RunError(
        fmt::format("{}: cannot be used as a tuning file: {}; delete it, or name another "
                    "one with METRONOME_TUNING",
                    path, why));
  };
  const nlohmann::json json = nlohmann::json::parse(text.str(), nullptr, false);
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

std::string cpu_model() {
  std::ifstream in("/proc/cpuinfo");
  std::string line;
  while (std::getline(in, line)) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown CPU";
}

}  // namespace

TuningFile::TuningFile(std::string path) : path_(std::move(path)), choices_(read_choices(path_)) {}

std::optional<std::string> TuningFile::find(const std::string& key) const {
  const auto found = choices_.find(key);
  return found == choices_.end() ? std::nullopt : std::optional(found->second);
}

void TuningFile::add(const std::string& key, const std::string& choice) {
  choices_[key] = added_[key] = choice;
}

void TuningFile::save() {
  if (added_.empty()) return;
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

}  // namespace metronome
