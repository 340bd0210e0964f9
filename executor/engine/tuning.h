// The tuning file: kernel choices made by timing, kept across runs.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "executor/support/load_watch.h"

namespace metronome::executor {

/// By key.
struct TunedChoices {
  std::map<std::string, std::string> quiet, under_load;

  void add(const std::string& key, const std::string& choice, bool loaded);
  void add(const TunedChoices& more);
};

/// A JSON file {"format": "metronome-tuning-1", "choices": {key: candidate}, "under_load": {key:
/// candidate}}. A key names CPU model, instruction set, threads, library versions, op, types and
/// our own candidates, so that one file serves several machines and versions. A choice that was
/// timed under load stands apart: it holds while there is load, and in a process that has used it;
/// otherwise its candidates are timed again.
class TuningFile {
 public:
  /// `path` if it can be used: it is whole, or not there yet. A damaged file is renamed to
  /// `path`.damaged, with one line of warning; one that cannot be read or set aside is left alone,
  /// with one line too, and the answer is empty: no file.
  static std::string usable(const std::string& path);

  /// Reads the file if it exists. Throws RunError if it cannot be read or is damaged. An
  /// empty path: nothing is read and nothing kept.
  explicit TuningFile(std::string path);

  /// `anew`: what cannot be found can be timed.
  std::optional<std::string> find(const std::string& key, bool anew) const;
  void add(const std::string& key, const std::string& choice, bool under_load = false);
  /// Writes what was added, together with what other processes have added meanwhile, to a temporary
  /// name, then renames it. Throws RunError if the file cannot be written.
  void save();
  /// `save` for those who keep their choices anyway: an error is a warning, and the next compile
  /// times again.
  void save_or_warn();

  /// METRONOME_TUNING, else `metronome/tuning.json` under XDG_CACHE_HOME or HOME/.cache.
  static std::string default_path();

 private:
  std::string path_;
  TunedChoices choices_, added_;
};

/// True if others took so much of the cores since `watch` was made that what was timed says little:
/// a fifth, or a twentieth if what was timed is not `steady` (`Kernels::FastestCandidate`). Logs it
/// once where `told` is kept.
bool timed_under_load(const LoadWatch& watch, bool steady, bool& told);

/// CPU model, instruction set, threads and library versions: the first part of a key.
std::string machine_key(int threads);

}  // namespace metronome::executor
