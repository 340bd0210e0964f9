// The tuning file: kernel choices made by timing, kept across runs.
#pragma once

#include <map>
#include <optional>
#include <string>

namespace metronome::executor {

/// A JSON file {"format": "metronome-tuning-1", "choices": {key: candidate}}. A key names CPU
/// model, instruction set, threads, library versions, op and types, so that one file serves several
/// machines.
class TuningFile {
 public:
  /// `path` if it can be used: it is whole, or not there yet. A damaged file is renamed to
  /// `path`.damaged, with one line of warning; one that cannot be read or set aside is left alone,
  /// with one line too, and the answer is empty: no file.
  static std::string usable(const std::string& path);

  /// Reads the file if it exists. Throws RunError if it cannot be read or is damaged. An
  /// empty path: nothing is read and nothing kept.
  explicit TuningFile(std::string path);

  std::optional<std::string> find(const std::string& key) const;
  void add(const std::string& key, const std::string& choice);
  /// Writes what was added, together with what other processes have added meanwhile, to a temporary
  /// name, then renames it. Throws RunError if the file cannot be written.
  void save();

  /// METRONOME_TUNING, else `metronome/tuning.json` under XDG_CACHE_HOME or HOME/.cache.
  static std::string default_path();

 private:
  std::string path_;
  std::map<std::string, std::string> choices_;
  std::map<std::string, std::string> added_;
};

/// CPU model, instruction set, threads and library versions: the first part of a key.
std::string machine_key(int threads);

}  // namespace metronome::executor
