// Parameters by their paths. `find_parameters` finds all those at a path, below it or that a glob
// meets. A path that finds none is a mistake, which names paths near it.
//
//   freeze, thaw, scale_...   set a property of each parameter
//   average                   a storage average/<name>/<path> beside each, which begins as it does
//   follow                    pairs each parameter with that of the source, by the rest of its path
//
// Averages and followers move in the same way: an `AverageUpdate` of the old value and of an
// `AfterUpdate`, which stands for the parameter after the step's update.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/builder/find_parameters.h"
#include "graph/builder/glob.h"
#include "graph/builder/graph.h"
#include "graph/emit/emitter.h"
#include "graph/emit/scope.h"
#include "graph/ir/op_model.h"
#include "graph/ir/structural.h"

namespace metronome {
namespace {

/// A path without what tells siblings and copies apart.
std::string letters_of(std::string_view path) {
  std::string letters;
  for (const char c : path) {
    if (std::string_view("0123456789_*?/").find(c) == std::string_view::npos) letters += c;
  }
  return letters;
}

/// The mistake of a path that no parameter has; `requires_` is what was asked for. Layers on a
/// poisoned value make no parameters: after a mistake only a slip of the pen is told.
Value finds_nothing(Emitter& emitter, std::string_view path, const std::string& what,
                    std::string requires_, Line line) {
  std::vector<std::string> parameters;
  for (const Storage& s : emitter.graph.storages()) {
    if (s.kind == StorageKind::parameter) parameters.push_back(s.path);
  }
  std::string near;
  bool slip = false;
  for (const std::string& candidate : near_paths(path, parameters)) {
    near += fmt::format("{}\"{}\"", near.empty() ? "" : ", ", candidate);
    slip = slip || letters_of(candidate) != letters_of(path);
  }
  if (!slip && emitter.may_follow()) return Value(&emitter, ValueId{});
  return mistake(&emitter, line, fmt::format("{} finds nothing", what), {},
                 {std::move(requires_), near.empty() ? "" : fmt::format("near it are: {}", near)});
}

/// `set` of each parameter that `path` finds.
template <class Set>
void for_parameters(Emitter& emitter, std::string_view path, const std::string& what, Line line,
                    const Set& set) {
  for (const StorageId id : find_parameters(emitter, path, what, line)) set(id);
}

}  // namespace

std::vector<StorageId> find_parameters(Emitter& emitter, std::string_view path,
                                       const std::string& what, Line line) {
  std::vector<StorageId> found;
  const std::vector<Storage>& storages = emitter.graph.storages();
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(storages.size()); ++i) {
    if (storages[i].kind != StorageKind::parameter || !glob_finds(path, storages[i].path)) continue;
    found.push_back({i});
  }
  if (!found.empty()) return found;
  const std::size_t before = emitter.mistakes.size();
  const bool glob = path.find_first_of("*?") != path.npos;
  finds_nothing(emitter, path, what,
                fmt::format("{} of a parameter or of a scope that holds some, made before",
                            glob ? "a glob that meets the path" : "the path"),
                line);
  emitter.apart += emitter.mistakes.size() - before;
  return found;
}

Value Graph::parameter(std::string_view path, Line line) {
  Emitter& emitter = this->emitter(line);
  const auto found = emitter.graph.find_storage(std::string(path));
  if (found && emitter.graph.storage(*found).kind == StorageKind::parameter) {
    return emitter.read_parameter(*found);
  }
  return finds_nothing(emitter, path, fmt::format("parameter(\"{}\")", path),
                       "the whole path of one parameter, made before", line);
}

void Graph::freeze(std::string_view path, Line line) {
  for_parameters(emitter(line), path, fmt::format("freeze(\"{}\")", path), line,
                 [&](StorageId id) { emitter(line).graph.set_trainable(id, false); });
}

void Graph::thaw(std::string_view path, Line line) {
  for_parameters(emitter(line), path, fmt::format("thaw(\"{}\")", path), line,
                 [&](StorageId id) { emitter(line).graph.set_trainable(id, true); });
}

void Graph::scale_learning_rate(std::string_view path, double factor, Line line) {
  const std::string what = fmt::format("scale_learning_rate(\"{}\", {})", path, factor);
  if (!(factor > 0) || std::isinf(factor)) {
    mistake(&emitter(line), line, fmt::format("{} cannot be applied", what), {},
            {fmt::format("a finite factor above 0, but {}", factor),
             factor == 0 ? "freeze what is not to be trained" : ""});
    return;
  }
  for_parameters(emitter(line), path, what, line,
                 [&](StorageId id) { emitter(line).graph.set_rate(id, factor); });
}

void Graph::scale_weight_decay(std::string_view path, double factor, Line line) {
  const std::string what = fmt::format("scale_weight_decay(\"{}\", {})", path, factor);
  if (!(factor >= 0) || std::isinf(factor)) {
    mistake(&emitter(line), line, fmt::format("{} cannot be applied", what), {},
            {fmt::format("a finite factor of 0 or more, but {}", factor)});
    return;
  }
  for_parameters(emitter(line), path, what, line,
                 [&](StorageId id) { emitter(line).graph.set_decay(id, factor); });
}

namespace {

/// "{.rate = 0.005}", as it is written in C++.
std::string to_string(std::optional<double> rate, std::optional<double> decay,
                      std::int64_t every = 1) {
  std::vector<std::string> given;
  if (rate) given.push_back(fmt::format(".rate = {}", *rate));
  if (decay) given.push_back(fmt::format(".decay = {}", *decay));
  if (every != 1) given.push_back(fmt::format(".every = {}", every));
  return fmt::format("{{{}}}", fmt::join(given, ", "));
}

/// Returns the requirement that a rate and a decay do not meet, if any.
std::optional<Requirement> wrong_pace(std::optional<double> rate, std::optional<double> decay) {
  if (rate && decay) {
    return Requirement{
        fmt::format("a rate or a decay, but both are given, {} and {}", *rate, *decay)};
  }
  if (!rate && !decay) return Requirement{"a rate or a decay, but neither is given"};
  if (rate && !(*rate > 0 && *rate <= 1)) {
    return Requirement{fmt::format("a rate above 0 and up to 1, but {}", *rate)};
  }
  if (decay && !(*decay >= 0 && *decay < 1)) {
    return Requirement{fmt::format("a decay of 0 or more and below 1, but {}", *decay)};
  }
  return std::nullopt;
}

std::optional<Requirement> wrong_name(const ir::Graph& graph, const std::string& name) {
  if (name.empty() || name.find('/') != name.npos) {
    return Requirement{fmt::format("a name of one letter or more without '/', but \"{}\"", name)};
  }
  const std::string root = fmt::format("{}/{}/", kAveragesRoot, name);
  for (const Storage& s : graph.storages()) {
    if (s.kind != StorageKind::average || !s.path.starts_with(root)) continue;
    return Requirement{
        fmt::format("a new name, but \"{}\" was given at {}", name, to_string(s.line)),
        "give it one: {.name = \"slow\"}"};
  }
  return std::nullopt;
}

/// The weights of averages, one for all parameters of which one objective is known to train them.
class AverageWeights {
 public:
  explicit AverageWeights(Emitter& emitter) : emitter_(emitter) {}

  Value of(StorageId parameter, const AverageWeight& op, const Line& line) {
    const Storage& s = emitter_.graph.storage(parameter);
    if (s.objective < 0) return make(parameter, op, line);
    Value& known = by_objective_[s.objective];
    if (!known.present()) known = make(parameter, op, line);
    return known;
  }

 private:
  Value make(StorageId parameter, const AverageWeight& op, const Line& line) {
    const std::string path = emitter_.graph.storage(parameter).path;
    const Value updates = emitter_.source(make_op(UpdatesOf{parameter}), path, line);
    return apply(op, {updates}, line);
  }

  Emitter& emitter_;
  std::map<std::int32_t, Value> by_objective_;
};

/// After each update the storage takes `weight` of the way to the parameter's value.
void assign_average(Emitter& emitter, StorageId average, StorageId parameter, Value weight,
                    const Line& line) {
  const Storage of = emitter.graph.storage(parameter);
  const Value after = emitter.source(make_op(AfterUpdate{parameter, of.type}), of.path, line);
  const Value next = apply(AverageUpdate{}, {emitter.read(average), after, weight}, line);
  if (!next.poisoned()) emitter.graph.assign(average, next.id(), emitter.effective_line(line));
}

bool has_average(const ir::Graph& graph, const std::string& parameter) {
  return std::ranges::any_of(graph.storages(), [&](const Storage& s) {
    return s.kind == StorageKind::average && s.path.ends_with("/" + parameter) &&
           std::ranges::count(s.path, '/') == std::ranges::count(parameter, '/') + 2;
  });
}

bool is_assigned(const ir::Graph& graph, StorageId id) {
  return std::ranges::any_of(graph.assignments(),
                             [&](const Assignment& a) { return a.storage == id; });
}

}  // namespace

Average Graph::average(std::string_view path, AverageOptions options, Line line) {
  Emitter& emitter = this->emitter(line);
  const std::string what =
      fmt::format("average(\"{}\", {})", path, to_string(options.rate, options.decay));
  auto wrong = wrong_pace(options.rate, options.decay);
  if (!wrong) wrong = wrong_name(emitter.graph, options.name);
  if (wrong) {
    mistake(&emitter, line, what + " cannot be kept", {}, *wrong);
    return {std::move(options.name)};
  }
  const double decay = options.decay ? *options.decay : 1 - *options.rate;
  std::vector<StorageId> parameters;
  bool any = false;
  for_parameters(emitter, path, what, line, [&](StorageId id) {
    any = true;
    if (!is_assigned(emitter.graph, id)) parameters.push_back(id);  // one that follows is one
  });
  if (any && parameters.empty()) {
    mistake(&emitter, line, what + " cannot be kept", {},
            {"parameters of which some follow no other, but all that it finds do"});
    return {std::move(options.name)};
  }
  const LineScope of_call(&emitter, line);
  const PathScope scope(&emitter, kAveragesRoot, PathScope::Kind::user);
  AverageWeights weights(emitter);
  for (const StorageId id : parameters) {
    const Value weight =
        weights.of(id, AverageWeight{decay, options.bias_correction, /*every=*/1}, line);
    Storage average = emitter.graph.storage(id);
    average.path = fmt::format("{}/{}/{}", kAveragesRoot, options.name, average.path);
    average.kind = StorageKind::average;
    average.line = emitter.effective_line(line);
    average.trainable = false;
    const StorageId kept = emitter.graph.append_storage(std::move(average));
    emitter.graph.set_beginning(kept, id);
    assign_average(emitter, kept, id, weight, line);
  }
  return {std::move(options.name)};
}

void Graph::follow(std::string_view path, std::string_view source, FollowOptions options,
                   Line line) {
  Emitter& emitter = this->emitter(line);
  const ir::Graph& graph = emitter.graph;
  const std::string what = fmt::format("follow(\"{}\", \"{}\", {})", path, source,
                                       to_string(options.rate, options.decay, options.every));
  const auto refuse = [&](const Requirement& requirement) {
    mistake(&emitter, line, what + " cannot be kept", {}, requirement);
  };
  if (const auto wrong = wrong_pace(options.rate, options.decay)) return refuse(*wrong);
  if (options.every < 1) {
    return refuse({fmt::format("a FollowOptions::every of 1 or more, but {}", options.every)});
  }
  if (path.find_first_of("*?") != path.npos || source.find_first_of("*?") != source.npos) {
    return refuse({"two paths without globs, of parameters or of scopes that hold some"});
  }
  std::vector<std::pair<StorageId, StorageId>> pairs;
  std::optional<Requirement> wrong;
  for_parameters(emitter, path, what, line, [&](StorageId id) {
    const Storage& s = graph.storage(id);
    const std::string of = std::string(source) + s.path.substr(path.size());
    const auto found = graph.find_storage(of);
    if (wrong) return;
    if (found && *found == id) {
      wrong = Requirement{fmt::format("another path than that of \"{}\", to follow", s.path)};
    } else if (!found || graph.storage(*found).kind != StorageKind::parameter) {
      wrong = Requirement{fmt::format("a parameter \"{}\" for \"{}\" to follow", of, s.path)};
    } else if (graph.storage(*found).type != s.type) {
      wrong =
          Requirement{fmt::format("equal types, but \"{}\" is {} and \"{}\" {}", s.path,
                                  to_string(s.type), of, to_string(graph.storage(*found).type))};
    } else if (is_assigned(graph, id) || is_assigned(graph, *found)) {
      wrong = Requirement{fmt::format("a parameter that follows no other, but \"{}\" does",
                                      is_assigned(graph, id) ? s.path : of)};
    } else if (has_average(graph, s.path)) {
      wrong = Requirement{fmt::format("a parameter without an average, but \"{}\" has one", s.path),
                          "call follow before average, which then leaves it out"};
    }
    if (!wrong) pairs.emplace_back(id, *found);
  });
  if (wrong) return refuse(*wrong);
  const LineScope of_call(&emitter, line);
  const PathScope scope(&emitter, "follow", PathScope::Kind::user);
  const double decay = options.decay ? *options.decay : 1 - *options.rate;
  AverageWeights weights(emitter);
  for (const auto& [target, of] : pairs) {
    const Value weight = weights.of(of, AverageWeight{decay, false, options.every}, line);
    emitter.graph.set_trainable(target, false);
    emitter.graph.set_beginning(target, of);
    assign_average(emitter, target, of, weight, line);
  }
}

}  // namespace metronome
