// Vectors hold the nodes, storages, readables, objectives and assignments. Two maps find a storage
// by its path, and the one node that reads a storage. Nodes are only appended, and may read earlier
// ones alone, so their order is topological:
//
//   append         asks the op's shape rule for the types; a refusal is an InternalError
//   append_typed   takes the types that the node has
//   set_...        replaces one property of a storage, a readable or an objective
//
// Each write takes a new version from a counter of the process. Copies keep it, so graphs of one
// version are equal.
#include "graph/ir/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "graph/ir/error.h"
#include "graph/ir/op_model.h"
#include "graph/ir/structural.h"
#include "graph/rules/alias.h"
#include "graph/rules/inside.h"

namespace metronome::ir {

std::string name_of_loss(const std::string& objective) {
  return objective.empty() ? "loss" : "loss/" + objective;
}

std::string path_of_kept_loss(const std::string& objective) {
  return fmt::format("{}/{}", kMomentsRoot, name_of_loss(objective));
}

std::string path_of_gathered(const std::string& parameter) {
  return fmt::format("{}/gathered/{}", kMomentsRoot, parameter);
}

std::string path_of_gathered_weight(const std::string& objective) {
  return path_of_state("gathered_weight", objective);
}

std::string path_of_moment(const Moment& moment, std::string_view parameter) {
  const std::string_view root = moment.is_average ? kAveragesRoot : kMomentsRoot;
  return fmt::format("{}/{}/{}", root, moment.name, parameter);
}

std::string path_of_state(std::string_view state, std::string_view objective) {
  return fmt::format("{}/{}{}{}", kMomentsRoot, state, objective.empty() ? "" : "/", objective);
}

Graph::Graph(std::string name) : name_(std::move(name)) {
  const auto counter = [&](std::size_t which) {
    return append_storage(
        {std::string(kCounters[which]), Type{i64, {}}, StorageKind::counter, Init{}, Line{}});
  };
  counters_ = {counter(0), counter(1), counter(2)};
}

Graph Graph::like(const Graph& source) {
  Graph graph;
  graph.bump_version();
  graph.nodes_.reserve(source.nodes_.size());
  graph.name_ = source.name_;
  graph.storages_ = source.storages_;
  graph.storage_by_path_ = source.storage_by_path_;
  graph.counters_ = source.counters_;
  graph.readables_ = source.readables_;
  graph.objectives_ = source.objectives_;
  for (Readable& r : graph.readables_) r.value = ValueId{};
  for (MinimizedLoss& o : graph.objectives_) {
    o.loss = o.when = o.weight = ValueId{};
    o.gradients.clear();
  }
  return graph;
}

void Graph::bump_version() {
  static std::atomic<std::uint64_t> versions = 0;
  version_ = versions.fetch_add(1, std::memory_order_relaxed) + 1;
}

std::optional<StorageId> Graph::find_storage(std::string_view path) const {
  const auto found = storage_by_path_.find(path);
  if (found == storage_by_path_.end()) return std::nullopt;
  return found->second;
}

std::optional<ValueId> Graph::find_read(StorageId storage) const {
  const auto found = reads_.find(storage);
  if (found == reads_.end()) return std::nullopt;
  return found->second;
}

Types Graph::operands(const Node& node) const {
  Types types;
  types.reserve(node.inputs.size());
  for (const ValueId input : node.inputs) types.push_back(type(input));
  return types;
}

// Types are looked up for the few ops that have the rule: these are asked of every node, often.
std::optional<Alias> Graph::alias(const Node& node) const {
  return node.op->has_rule<AliasRule>() ? node.op->ask<AliasRule>(operands(node)) : std::nullopt;
}

std::vector<Inside> Graph::insides(const Node& node) const {
  return node.op->has_rule<InsideRule>() ? node.op->ask<InsideRule>(operands(node))
                                         : std::vector<Inside>{};
}

ValueId Graph::append(Node node) {
  require_earlier(node);
  try {
    node.types = node.op->infer(operands(node));
    for (const Type& made : node.types) require_possible(made);
  } catch (const Requirement& requirement) {
    throw InternalError(
        fmt::format("{} \"{}\" requires {}", node.op->name(), node.path, requirement.requires_));
  }
  return append_typed(std::move(node));
}

ValueId Graph::append_typed(Node node) {
  bump_version();
  require_earlier(node);
  const ValueId made{static_cast<std::int32_t>(nodes_.size()), 0};
  if (const Read* read = node.op->as<Read>()) reads_[read->storage] = made;
  nodes_.push_back(std::move(node));
  return made;
}

void Graph::require_earlier(const Node& node) const {
  for (const ValueId input : node.inputs) {
    if (input.node >= 0 && input.node < static_cast<std::int32_t>(nodes_.size())) continue;
    throw InternalError(fmt::format("\"{}\" reads a value that does not exist yet", node.path));
  }
  for (const std::int32_t before : node.waits_for) {
    if (before >= 0 && before < static_cast<std::int32_t>(nodes_.size())) continue;
    throw InternalError(fmt::format("\"{}\" waits for a node that does not exist yet", node.path));
  }
}

StorageId Graph::append_storage(Storage storage) {
  bump_version();
  if (storage_by_path_.contains(storage.path)) {
    throw InternalError(fmt::format("storage \"{}\" exists", storage.path));
  }
  const StorageId id{static_cast<std::int32_t>(storages_.size())};
  storage_by_path_[storage.path] = id;
  storages_.push_back(std::move(storage));
  return id;
}

void Graph::set_path(StorageId id, std::string path) {
  bump_version();
  if (storage_by_path_.contains(path)) {
    throw InternalError(fmt::format("storage \"{}\" exists", path));
  }
  Storage& storage = storages_[id.index];
  storage_by_path_.erase(storage.path);
  storage_by_path_[path] = id;
  storage.path = std::move(path);
}

ValueId Graph::read(StorageId id) {
  if (const auto found = find_read(id)) return *found;
  const Storage& of = storage(id);
  return append({.op = make_op(Read{id, of.stored_type()}), .path = of.path, .line = of.line});
}

void Graph::set_layout(StorageId storage, Layout layout) {
  bump_version();
  if (find_read(storage)) {
    throw InternalError(fmt::format("storage \"{}\" is read before its layout is set",
                                    storages_[storage.index].path));
  }
  storages_[storage.index].layout = std::move(layout);
}

void Graph::set_trainable(StorageId parameter, bool trainable) {
  bump_version();
  storages_[parameter.index].trainable = trainable;
}

void Graph::set_rate(StorageId parameter, double rate) {
  bump_version();
  storages_[parameter.index].rate = rate;
}

void Graph::set_decay(StorageId parameter, double decay) {
  bump_version();
  storages_[parameter.index].decay = decay;
}

void Graph::set_objective(StorageId parameter, std::int32_t objective) {
  bump_version();
  storages_[parameter.index].objective = objective;
}

void Graph::set_beginning(StorageId storage, StorageId as) {
  bump_version();
  const Storage& source = storages_[as.index];
  Storage& target = storages_[storage.index];
  target.init = source.init;
  target.begins_as = source.begins_as.empty() ? source.path : source.begins_as;
}

void Graph::append_readable(Readable readable) {
  bump_version();
  readables_.push_back(std::move(readable));
}

void Graph::set_readable(std::size_t index, ValueId value) {
  bump_version();
  readables_[index].value = value;
}

void Graph::append_objective(MinimizedLoss objective) {
  bump_version();
  objectives_.push_back(std::move(objective));
}

void Graph::erase_objective(std::size_t objective) {
  bump_version();
  objectives_.erase(objectives_.begin() + static_cast<std::ptrdiff_t>(objective));
}

void Graph::set_loss(std::size_t objective, ValueId loss) {
  bump_version();
  objectives_[objective].loss = loss;
}

void Graph::set_when(std::size_t objective, ValueId when) {
  bump_version();
  objectives_[objective].when = when;
}

void Graph::set_weight(std::size_t objective, ValueId weight) {
  bump_version();
  objectives_[objective].weight = weight;
}

void Graph::set_gradients(std::size_t objective, std::vector<ParameterGradient> gradients) {
  bump_version();
  objectives_[objective].gradients = std::move(gradients);
}

void Graph::assign(StorageId storage, ValueId value, Line line) {
  bump_version();
  const auto same = std::ranges::find(assignments_, storage, &Assignment::storage);
  if (same != assignments_.end()) {
    same->value = value;
  } else {
    assignments_.push_back({storage, value, std::move(line)});
  }
}

void Graph::set_assignments(std::vector<Assignment> assignments) {
  bump_version();
  assignments_ = std::move(assignments);
}

std::vector<bool> made_by_training(const Graph& graph) {
  std::vector<bool> made(graph.nodes().size());
  for (std::size_t i = 0; i < made.size(); ++i) {
    const Node& node = graph.nodes()[i];
    made[i] = stands_for_training(*node.op) ||
              std::ranges::any_of(node.inputs, [&](ValueId input) { return made[input.node]; });
  }
  return made;
}

std::vector<std::size_t> updates_before(const Graph& graph) {
  std::vector<std::size_t> updates(graph.nodes().size());
  for (std::size_t i = 0; i < updates.size(); ++i) {
    const Node& node = graph.nodes()[i];
    const auto wait_for = [&](std::int32_t other) {
      updates[i] = std::max(updates[i], updates[other]);
    };
    for (const ValueId input : node.inputs) wait_for(input.node);
    for (const std::int32_t other : node.waits_for) wait_for(other);
    if (node.guard.present()) wait_for(node.guard.node);
    const auto* read = node.op->as<ReadUpdated>();
    if (read == nullptr) continue;
    const Storage& s = graph.storage(read->storage);
    if (s.trainable) updates[i] = static_cast<std::size_t>(s.objective) + 1;
  }
  return updates;
}

}  // namespace metronome::ir
