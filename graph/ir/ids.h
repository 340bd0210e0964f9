// How a graph, its values and its storages are known.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace metronome {

class Value;
using Values = std::vector<Value>;

/// Output `output` of node `node`; a node below zero means "absent".
struct ValueId {
  std::int32_t node = -1;
  std::int32_t output = 0;

  bool present() const { return node >= 0; }
  auto operator<=>(const ValueId&) const = default;
};

}  // namespace metronome

template <>
struct std::hash<metronome::ValueId> {
  std::size_t operator()(const metronome::ValueId& id) const noexcept {
    return (static_cast<std::size_t>(id.node) << 8) ^ static_cast<std::size_t>(id.output);
  }
};

namespace metronome {

/// Index into `Graph::storages()`; the same in every graph that passes make of one declaration,
/// as passes only append storages.
struct StorageId {
  std::int32_t index = -1;

  auto operator<=>(const StorageId&) const = default;
};

struct Emitter;

/// Shared by a graph, its values and the executables made of it. While any of them lives its
/// address is no other graph's, so identities are compared by address; addresses of graphs return.
struct GraphIdentity {
  Emitter* emitter = nullptr;  ///< null once the graph is destroyed
  std::string name;            ///< the graph's, for messages when it is gone
};

/// A graph's hold on its identity: closes it when the graph is destroyed. A graph that another is
/// copied into keeps its own.
class OpenIdentity {
 public:
  OpenIdentity(Emitter* emitter, std::string name)
      : identity_(std::make_shared<GraphIdentity>(GraphIdentity{emitter, std::move(name)})) {}
  ~OpenIdentity() { identity_->emitter = nullptr; }
  OpenIdentity(const OpenIdentity&) = delete;
  OpenIdentity& operator=(const OpenIdentity&) { return *this; }

  const std::shared_ptr<GraphIdentity>& shared() const { return identity_; }

 private:
  std::shared_ptr<GraphIdentity> identity_;
};

}  // namespace metronome
