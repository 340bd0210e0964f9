// Parameters by their paths: which are trained, at which rate, and their values for other layers.
#include <fmt/format.h>

#include <cmath>

#include "graph/builder/glob.h"
#include "graph/builder/graph.h"
#include "graph/emit/emitter.h"
#include "graph/emit/scope.h"

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

/// `set` of each parameter that `path` finds; `what` is the call, for the mistake where there is
/// none.
template <class Set>
void for_parameters(Emitter& emitter, std::string_view path, const std::string& what, Line line,
                    const Set& set) {
  bool found = false;
  const std::vector<Storage>& storages = emitter.graph.storages();
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(storages.size()); ++i) {
    if (storages[i].kind != StorageKind::parameter || !glob_finds(path, storages[i].path)) continue;
    set(StorageId{i});
    found = true;
  }
  if (found) return;
  const std::size_t before = emitter.mistakes.size();
  const bool glob = path.find_first_of("*?") != path.npos;
  finds_nothing(emitter, path, what,
                fmt::format("{} of a parameter or of a scope that holds some, made before",
                            glob ? "a glob that meets the path" : "the path"),
                line);
  emitter.apart += emitter.mistakes.size() - before;
}

}  // namespace

Value Graph::parameter(std::string_view path, Line line) {
  Emitter& emitter = this->emitter(line);
  const auto found = emitter.graph.find_storage(std::string(path));
  if (found && emitter.graph.storage(*found).kind == StorageKind::parameter) {
    return emitter.read(*found);
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

}  // namespace metronome
