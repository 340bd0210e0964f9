// The graph that a step runs, of those that were compiled together.
//
//   explore  obs [1, 3], noise [1, 1] --.
//   policy   obs [1, 3] ----------------+-- {{"obs", o}} fits both: refused
//                                       +-- {{policy_obs, o}}: policy, whose value is fed
//                                       +-- {{"obs", o}}, {.graph = "explore"}: explore
#include <fmt/format.h>

#include <algorithm>

#include "executor/engine/tensor_copy.h"
#include "executor/run/executable_impl.h"
#include "graph/ir/error.h"

namespace metronome {

bool Executable::Impl::may_be(const GraphChoice& choice, std::size_t k) const {
  if (!choice.given) return true;
  if (choice.identity != nullptr) return declared[k].declared_by == choice.identity;
  return declared[k].graph.name() == choice.name;
}

std::vector<std::size_t> Executable::Impl::compiled_to(Kind kind, const GraphChoice& choice) const {
  std::vector<std::size_t> graphs;
  for (std::size_t k = 0; k < declared.size(); ++k) {
    if (declared[k].plan(kind).present() && may_be(choice, k)) graphs.push_back(k);
  }
  return graphs;
}

void Executable::Impl::require_choice(Kind kind, const GraphChoice& choice) const {
  if (!choice.given) return;
  const auto listed = [&](const GraphChoice& among, bool of_kind) {
    std::vector<std::string> names;
    for (std::size_t k = 0; k < declared.size(); ++k) {
      if (!may_be(among, k) || (of_kind && !declared[k].plan(kind).present())) continue;
      std::string name = fmt::format("\"{}\"", declared[k].graph.name());
      if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
    }
    return fmt::format("{}", fmt::join(names, ", "));
  };
  if (choice.identity == nullptr && choice.name.data() == nullptr) {
    throw RunError(
        fmt::format("{}: the value that is to choose the graph is absent; compiled are {}",
                    prefix(), listed({}, false)));
  }
  const std::string name =
      choice.identity != nullptr ? choice.identity->name : std::string(choice.name);
  const std::string found = listed(choice, false);
  if (found.empty()) {
    throw RunError(fmt::format("{}: graph \"{}\" is chosen, but compiled are {}", prefix(), name,
                               listed({}, false)));
  }
  if (!listed(choice, true).empty()) return;
  const std::string with = averages[kind.average];
  throw RunError(fmt::format(
      "{}: graph {} is chosen, but compiled to {}{} are {}", prefix(), found, name_of(kind.mode),
      with.empty() ? "" : fmt::format(" with \"{}\"", with), listed({}, true)));
}

std::size_t Executable::Impl::pick_by_feeds(Kind kind, const GraphChoice& choice) const {
  std::size_t picked = kNone;
  int clearest = -1;
  bool several = false;
  for (std::size_t k = 0; k < declared.size(); ++k) {
    if (!declared[k].plan(kind).present() || !may_be(choice, k) || !takes(k)) continue;
    const int clear = clearness(kind, k);
    if (clear < clearest) continue;
    several = clear == clearest;
    clearest = clear;
    picked = k;
  }
  if (picked == kNone) refuse_feeds(kind, choice);
  if (several) refuse_several(kind, choice);
  return picked;
}

bool Executable::Impl::takes(std::size_t k) const {
  for (std::size_t i = 0; i < fed.feeds.size(); ++i) {
    const InputPlace place{k, fed.inputs[i]};
    if (!has(place)) return false;
    if (!executor::fits(fed.feeds[i].offered, input_memory(place).type)) return false;
  }
  return true;
}

int Executable::Impl::clearness(Kind kind, std::size_t k) const {
  if (fed.feeds.empty()) return k == shape_to[kind.index()] ? 1 : 0;
  const bool is_fed = std::ranges::any_of(fed.feeds, [&](const executor::FeedView& feed) {
    return feed.input->identity() == declared[k].declared_by;
  });
  return is_fed ? 2 : k == filled_by_value ? 1 : 0;
}

void Executable::Impl::refuse_several(Kind kind, const GraphChoice& choice) const {
  std::vector<std::size_t> graphs = compiled_to(kind, choice);
  std::erase_if(graphs, [&](std::size_t k) { return !takes(k); });
  const auto name = [&](std::size_t k) { return fmt::format("\"{}\"", declared[k].graph.name()); };
  std::size_t width = 0;
  bool names_tell = false;
  for (const std::size_t k : graphs) {
    width = std::max(width, name(k).size());
    names_tell = names_tell || name(k) != name(graphs[0]);
  }
  std::string text = fmt::format("{}: the feeds fit several graphs that are compiled to {}",
                                 prefix(), name_of(kind.mode));
  for (const std::size_t k : graphs) {
    text += fmt::format("\n  {:<{}}  {}", name(k), width,
                        executor::list_inputs(executor::inputs_of(declared[k].graph)));
  }
  text += fmt::format(
      "\n  way out    feed a value of the graph that is meant in place of a name, or give a "
      "value{} "
      "of it as the option `graph`",
      names_tell ? " or the name" : "");
  throw RunError(text);
}

}  // namespace metronome
