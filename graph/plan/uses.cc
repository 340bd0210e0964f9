// Five walks, each over what the ones before have left:
//
//   number_values   numbers and bytes of values
//   find_roots      a view lies in the root of what it views; inputs and storages have their homes
//   InsidesPlacer   a root lies inside a result that only copies it
//   find_readers    who reads a view or a part reads the whole root
//   find_homes      homes of readables; roots that are assigned; saved outputs that nobody reads
//
//   a = f(x)           256 bytes                  a lies in c from byte 0
//   b = g(x)           256 bytes                  b lies in c from byte 256
//   v = a view of b    from its byte 128 on       v lies in c from byte 256 + 128
//   c = concat(a, b)   512 bytes                  c, the one root, is read where a, b or v is
//
// `InsidesPlacer` notes for each root the one value around it (`outer_`), and at the end climbs
// from each view to the outermost value, adding up offsets.
#include "graph/plan/uses.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/ir/error.h"
#include "graph/ir/structural.h"

namespace metronome::plan {
namespace {

/// The most bytes that a graph's values may have together, so that every sum of some of them,
/// rounded up to an alignment, fits 64 bits.
constexpr std::size_t kMostBytesTogether = std::size_t{1} << 62;

void number_values(const ir::Graph& graph, Uses& uses) {
  std::size_t together = 0;
  for (std::int32_t node = 0; node < static_cast<std::int32_t>(graph.nodes().size()); ++node) {
    uses.first.push_back(uses.values());
    const Types& types = graph.nodes()[node].types;
    for (std::int32_t output = 0; output < static_cast<std::int32_t>(types.size()); ++output) {
      uses.ids.push_back({node, output});
      uses.bytes.push_back(types[output].bytes());
      together += uses.bytes.back();
      if (together > kMostBytesTogether) {
        throw GraphError({fmt::format(
            "graph \"{}\" cannot be planned\n"
            "  requires   values of at most 2^62 bytes together, but up to \"{}\" ({}), number {} "
            "of {}, they have more",
            graph.name(), graph.nodes()[node].path, to_string(graph.nodes()[node].line), node + 1,
            graph.nodes().size())});
      }
    }
  }
  uses.first.push_back(uses.values());
  uses.views.resize(uses.ids.size());
  uses.makers.resize(uses.ids.size());
  uses.homes.resize(uses.ids.size(), Uses::Home::planned);
  uses.home_index.resize(uses.ids.size(), -1);
  uses.kept.resize(uses.ids.size());
  uses.readers.resize(uses.ids.size());
}

void find_roots(const ir::Graph& graph, Uses& uses) {
  for (std::int32_t index = 0; index < static_cast<std::int32_t>(graph.nodes().size()); ++index) {
    const Node& node = graph.nodes()[index];
    const std::int32_t first = uses.first[index];
    for (std::int32_t value = first; value < uses.first[index + 1]; ++value) {
      uses.views[value] = {value, 0};
      uses.makers[value] = index;
    }
    std::size_t without_kernel = 0;
    if (node.op->as<Input>() != nullptr) {
      uses.homes[first] = Uses::Home::input;
      uses.home_index[first] = index;
      without_kernel = 1;
    } else if (const Read* read = node.op->as<Read>()) {
      uses.homes[first] = Uses::Home::storage;
      uses.home_index[first] = read->storage.index;
      without_kernel = 1;
    } else if (const auto alias = graph.alias(node)) {
      const Uses::View& viewed = uses.view(node.inputs[alias->input]);
      uses.views[first + alias->output] = {viewed.root, viewed.offset + alias->offset};
      uses.makers[first + alias->output] = uses.makers[viewed.root];
      without_kernel = 1;
    }
    uses.runs.push_back(node.types.size() > without_kernel);
    uses.rights.push_back(uses.runs.back() ? node.op->in_place() : std::vector<InPlace>{});
  }
}

/// Puts operands inside results, innermost first, and then everything into the outermost.
class InsidesPlacer {
 public:
  InsidesPlacer(const ir::Graph& graph, Uses& uses, std::size_t alignment)
      : graph_(graph), uses_(uses), alignment_(alignment), fixed_(uses.ids.size()) {
    for (const Assignment& assignment : graph.assignments()) fix(assignment.value);
    for (const Readable& readable : graph.readables()) {
      if (readable.value.present()) fix(readable.value);
    }
    for (std::int32_t value = 0; value < uses.values(); ++value) outer_.push_back({value, 0});
  }

  void find(bool packs_alone) {
    for (std::int32_t index = 0; index < uses_.nodes(); ++index) {
      const Node& node = graph_.nodes()[index];
      if (!uses_.runs[index] || (packs_alone && node.op->as<Pack>() == nullptr)) continue;
      for (const Inside& inside : graph_.insides(node)) put(index, inside);
    }
    for (Uses::View& view : uses_.views) {
      while (outer_[view.root].root != view.root) {
        view.offset += outer_[view.root].offset;
        view.root = outer_[view.root].root;
      }
    }
  }

 private:
  void fix(ValueId id) { fixed_[uses_.root(id)] = true; }

  void put(std::int32_t index, const Inside& inside) {
    const Node& node = graph_.nodes()[index];
    const std::int32_t operand = uses_.number(node.inputs[inside.input]);
    const std::int32_t root = uses_.views[operand].root;
    const bool whole = uses_.bytes[operand] == uses_.bytes[root] && uses_.bytes[root] > 0;
    const bool free = uses_.homes[root] == Uses::Home::planned && !fixed_[root] &&
                      outer_[root].root == root && uses_.makers[root] != index;
    if (!whole || !free || inside.offset % alignment_ != 0 ||
        graph_.node(uses_.ids[root]).guard != node.guard) {
      return;
    }
    outer_[root] = {uses_.number({index, inside.output}), inside.offset};
  }

  const ir::Graph& graph_;
  Uses& uses_;
  const std::size_t alignment_;
  std::vector<bool> fixed_;        // [value] a root that users read, or that is assigned
  std::vector<Uses::View> outer_;  // [value] what a root lies inside of, or itself
};

void find_readers(const ir::Graph& graph, Uses& uses) {
  uses.reads.resize(uses.runs.size());
  for (std::int32_t index = 0; index < uses.nodes(); ++index) {
    if (!uses.runs[index]) continue;
    const Node& node = graph.nodes()[index];
    std::vector<std::int32_t>& reads = uses.reads[index];
    for (ValueId id : node.inputs) reads.push_back(uses.root(id));
    if (node.guard.present()) reads.push_back(uses.root(node.guard));
    std::sort(reads.begin(), reads.end());
    reads.erase(std::unique(reads.begin(), reads.end()), reads.end());
    for (std::int32_t root : reads) uses.readers[root].push_back(index);
  }
}

/// `what` is 'readable "h"' or 'the assignment of "w"'.
std::int32_t planned_root(const ir::Graph& graph, const Uses& uses, ValueId id,
                          const std::string& what) {
  const std::int32_t root = uses.root(id);
  if (uses.homes[root] == Uses::Home::input || uses.homes[root] == Uses::Home::storage) {
    throw InternalError(fmt::format("{} has no copy of {} \"{}\"", what,
                                    graph.node(uses.ids[root]).op->name(),
                                    graph.node(uses.ids[root]).path));
  }
  return root;
}

void find_homes(const ir::Graph& graph, Uses& uses) {
  for (const Assignment& assignment : graph.assignments()) {
    const std::string what =
        fmt::format("the assignment of \"{}\"", graph.storage(assignment.storage).path);
    uses.kept[planned_root(graph, uses, assignment.value, what)] = true;
  }
  for (std::size_t i = 0; i < graph.readables().size(); ++i) {
    const Readable& readable = graph.readables()[i];
    if (!readable.value.present()) continue;
    const std::int32_t root =
        planned_root(graph, uses, readable.value, fmt::format("readable \"{}\"", readable.name));
    if (uses.homes[root] == Uses::Home::readable) continue;
    uses.homes[root] = Uses::Home::readable;
    uses.home_index[root] = static_cast<std::int32_t>(i);
  }
  for (std::int32_t value = 0; value < uses.values(); ++value) {
    const Node& node = graph.node(uses.ids[value]);
    const std::size_t visible = node.types.size() - static_cast<std::size_t>(node.op->saved());
    const bool saved = static_cast<std::size_t>(uses.ids[value].output) >= visible;
    if (saved && uses.homes[value] == Uses::Home::planned && uses.readers[value].empty() &&
        !uses.kept[value]) {
      uses.homes[value] = Uses::Home::nowhere;
    }
  }
}

}  // namespace

static Uses find_uses(const ir::Graph& graph, std::size_t alignment, bool packs_alone) {
  Uses uses;
  number_values(graph, uses);
  find_roots(graph, uses);
  InsidesPlacer(graph, uses, alignment).find(packs_alone);
  find_readers(graph, uses);
  find_homes(graph, uses);
  return uses;
}

Uses uses_of(const ir::Graph& graph, std::size_t alignment) {
  return find_uses(graph, alignment, false);
}

Uses uses_apart(const ir::Graph& graph, std::size_t alignment) {
  return find_uses(graph, alignment, true);
}

bool has_insides(const Uses& uses) {
  for (std::int32_t value = 0; value < uses.values(); ++value) {
    // A view has the root's maker; a part has one of its own.
    if (uses.makers[value] != uses.makers[uses.views[value].root]) return true;
  }
  return false;
}

bool may_overwrite(const ir::Graph& graph, const Uses& uses, std::int32_t node, InPlace right) {
  const Node& writer = graph.nodes()[node];
  const std::int32_t output = uses.number({node, right.output});
  const std::int32_t root = uses.root(writer.inputs[right.input]);
  if (uses.views[output].root != output || uses.bytes[output] != uses.bytes[root]) return false;
  if (writer.guard.present() && uses.root(writer.guard) == root) return false;
  for (std::size_t i = 0; i < writer.inputs.size(); ++i) {
    const Uses::View& view = uses.view(writer.inputs[i]);
    if (view.root != root) continue;
    const bool allowed =
        std::any_of(uses.rights[node].begin(), uses.rights[node].end(), [&](const InPlace& other) {
          return other.output == right.output && static_cast<std::size_t>(other.input) == i;
        });
    const bool whole = uses.bytes[uses.number(writer.inputs[i])] == uses.bytes[root];
    if (!allowed || !whole) return false;
  }
  return true;
}

}  // namespace metronome::plan
