// Checks that need the whole declaration.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "graph/builder/declaration.h"
#include "graph/emit/emitter.h"
#include "graph/ir/error.h"
#include "graph/ir/structural.h"

namespace metronome {

void Graph::validate() const {
  const ir::Graph& graph = data();
  std::vector<std::string> mistakes = this->mistakes();
  const bool follows = declaration().emitter.may_follow();
  for (std::size_t i = 0; i < graph.storages().size(); ++i) {
    const Storage& s = graph.storages()[i];
    if (s.kind != StorageKind::state) continue;
    const auto fed = std::any_of(
        graph.assignments().begin(), graph.assignments().end(),
        [&](const Assignment& a) { return a.storage.index == static_cast<std::int32_t>(i); });
    const StorageId id{static_cast<std::int32_t>(i)};
    if (!fed && !declaration().emitter.excused.contains(id)) {
      mistakes.push_back(
          fmt::format("{}: state \"{}\" is never fed\n"
                      "  requires   one Graph::feed(state, next) for each state\n"
                      "  way out    use Graph::parameter or an input for what no step changes",
                      to_string(s.line), s.path));
    }
  }
  for (const Assignment& a : graph.assignments()) {
    const Storage& s = graph.storage(a.storage);
    if (s.kind != StorageKind::parameter || !s.trainable) continue;
    mistakes.push_back(
        fmt::format("{}: \"{}\" follows another parameter and is trained\n"
                    "  requires   parameters that are frozen, as Graph::follow leaves them\n"
                    "  way out    leave out what thaws it",
                    to_string(a.line), s.path));
  }
  if (!follows) {
    for (std::string& mistake : mistakes_of_objectives(graph, declaration().minimized)) {
      mistakes.push_back(std::move(mistake));
    }
  }
  const auto made =
      std::ranges::find_if(graph.nodes(), [](const Node& n) { return stands_for_training(*n.op); });
  if (made != graph.nodes().end() && graph.objectives().empty() && !follows) {
    const auto* number = made->op->as<OfUpdate>();
    const bool gradient = made->op->as<GradientOf>() != nullptr;
    mistakes.push_back(
        fmt::format("graph \"{}\": {} has no loss\n"
                    "  requires   one Graph::minimize(loss, optimizer)",
                    name(),
                    number != nullptr ? fmt::format("{}()", name_of(number->number))
                    : gradient        ? "gradient(value)"
                                      : "what follows parameters"));
  }
  if (!mistakes.empty()) throw GraphError(std::move(mistakes));
}

}  // namespace metronome
