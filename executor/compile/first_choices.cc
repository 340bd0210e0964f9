#include "executor/compile/first_choices.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>
#include <vector>

#include "executor/engine/ranks.h"
#include "executor/engine/tuning.h"
#include "graph/ir/error.h"

namespace metronome::executor::compile {
namespace {

/// An empty file of this process alone.
std::string temporary_file() {
  std::string path = (std::filesystem::temp_directory_path() / "metronome-choices-XXXXXX").string();
  const int opened = ::mkstemp(path.data());
  if (opened < 0) throw RunError(fmt::format("{}: cannot be made", path));
  ::close(opened);
  std::filesystem::remove(path);  // a tuning file that is not there is an empty one
  return path;
}

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

}  // namespace

FirstChoices::FirstChoices(CompileOptions& options, Report& report)
    : options_(options),
      report_(report),
      shared_(options.data_parallel != nullptr && options.tune != Tune::off),
      machine_(machine_key(options.threads)) {
  if (!shared_) return;
  if (options.data_parallel->rank() == 0) {
    if (options.tuning_file.empty()) options.tuning_file = file_ = temporary_file();
    return;
  }
  const std::string told = options.data_parallel->exchange(machine_)[0];
  const std::size_t end = told.find('\n');
  if (told.substr(0, end) != machine_) {
    note(fmt::format("rank {} is", options.data_parallel->rank()));
    return;
  }
  options.tune = Tune::file;
  options.tuning_file = file_ = temporary_file();
  if (end != std::string::npos && end + 1 < told.size()) {
    std::ofstream(file_) << told.substr(end + 1);
  }
}

FirstChoices::~FirstChoices() {
  std::error_code ignored;
  if (!file_.empty()) std::filesystem::remove(file_, ignored);
}

void FirstChoices::tell() {
  if (!shared_ || options_.data_parallel->rank() != 0) return;
  const std::vector<std::string> machines =
      options_.data_parallel->exchange(machine_ + "\n" + text_of(options_.tuning_file));
  std::vector<std::size_t> others;
  for (std::size_t rank = 1; rank < machines.size(); ++rank) {
    if (machines[rank] != machine_) others.push_back(rank);
  }
  if (others.empty()) return;
  note(fmt::format("rank{} {} {}", others.size() == 1 ? "" : "s", fmt::join(others, ", "),
                   others.size() == 1 ? "is" : "are"));
}

void FirstChoices::note(const std::string& others) {
  report_.choices.push_back(
      {.what = fmt::format(
           "{} on another kind of machine than rank 0, or with other threads: kernels of "
           "their own choice, so that bits may differ from rank to rank",
           others)});
}

}  // namespace metronome::executor::compile
