// Who a graph is, for values and executables that may outlive it.
#pragma once

#include <memory>
#include <string>

namespace metronome {

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
