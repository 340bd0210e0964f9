#include "executor/run/settable_numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <vector>

#include "executor/engine/tensor_copy.h"
#include "executor/run/rank_agreement.h"
#include "graph/ir/error.h"
#include "ops/rules/require.h"

namespace metronome::executor {
namespace {

struct NumberNames {
  const char* state;  ///< as the optimizer keeps it
  const char* text;
  const char* member;  ///< of an optimizer, as it is declared settable
};

NumberNames names_of(SettableNumber number) {
  switch (number) {
    case SettableNumber::learning_rate:
      return {"learning_rate", "learning rate", ".lr = mt::Settable{1e-3}"};
    case SettableNumber::weight_decay:
      return {"weight_decay", "weight decay", ".weight_decay = mt::Settable{0.01}"};
    case SettableNumber::clip_norm:
      return {"clip_norm", "norm to clip to", ".clip_norm = mt::Settable{1}"};
  }
  throw InternalError("a number of an optimizer without a name");
}

/// The names of objectives of all graphs, each once.
std::vector<std::string> objectives_of(const DeclaredGraphs& declared) {
  std::vector<std::string> names;
  for (std::size_t g = 0; g < declared.size(); ++g) {
    for (const ir::MinimizedLoss& objective : declared[g].graph.objectives()) {
      if (std::ranges::find(names, objective.name) == names.end()) names.push_back(objective.name);
    }
  }
  return names;
}

}  // namespace

std::string SettableNumbers::find_objective(std::string_view objective) const {
  const std::vector<std::string> names = objectives_of(declared_);
  if (objective.empty() && names.size() == 1) return names[0];
  const auto found = std::ranges::find(names, objective);
  if (found != names.end()) return *found;
  throw RunError(fmt::format("{} has no objective \"{}\"; it has {}", declared_.prefix(), objective,
                             list_names(names)));
}

std::size_t SettableNumbers::storage_of(SettableNumber number, std::string_view objective) const {
  declared_.require_compiled({Mode::train});
  const NumberNames called = names_of(number);
  const std::vector<std::string> paths = storages_.paths();
  const auto found = std::ranges::find(paths, ir::path_of_state(called.state, objective));
  if (found == paths.end()) {
    throw RunError(fmt::format(
        "{}: the {}{} was not declared settable; give its optimizer {}", declared_.prefix(),
        called.text, objective.empty() ? "" : fmt::format(" of \"{}\"", objective), called.member));
  }
  return static_cast<std::size_t>(found - paths.begin());
}

void SettableNumbers::require_range(SettableNumber number, double to) const {
  const char* text = names_of(number).text;
  const auto missed =
      number == SettableNumber::clip_norm ? unless_above_0(text, to) : unless_at_least_0(text, to);
  if (!missed) return;
  throw RunError(fmt::format("{}: cannot set what an optimizer refuses; it requires {}",
                             declared_.prefix(), missed->requires_));
}

std::optional<SettableNumber> SettableNumbers::find(std::string_view path) const {
  for (const std::string& objective : objectives_of(declared_)) {
    for (const SettableNumber number :
         {SettableNumber::learning_rate, SettableNumber::weight_decay, SettableNumber::clip_norm}) {
      if (path == ir::path_of_state(names_of(number).state, objective)) return number;
    }
  }
  return std::nullopt;
}

void SettableNumbers::require_range(std::string_view path, const CallerTensor& offered) const {
  const auto number = find(path);
  if (!number || !fits(offered, {f64, {}})) return;
  require_range(*number, to_span<double>(offered.tensor)[0]);
}

void SettableNumbers::require_agreement(SettableNumber number, std::string_view objective,
                                        double to) const {
  if (ranks_ == nullptr) return;
  require_same_call(*ranks_, declared_.prefix(),
                    fmt::format("set_{}({}, \"{}\")", names_of(number).state, to, objective));
}

double SettableNumbers::get(SettableNumber number, std::string_view objective) const {
  return to_span<double>(storages_.get(storage_of(number, find_objective(objective))))[0];
}

void SettableNumbers::set(SettableNumber number, std::string_view objective, double to) {
  const std::string name = find_objective(objective);
  const std::size_t storage = storage_of(number, name);
  // A rank that refuses alone would leave the others waiting.
  require_agreement(number, name, to);
  require_range(number, to);
  storages_.set(storage, {from_span(std::span(&to, 1), {})});
}

}  // namespace metronome::executor
