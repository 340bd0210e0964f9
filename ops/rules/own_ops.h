// Ops that are in no list of ops/ops.h, as `compile` takes them: a plain value. `own_ops`
// (ops/own/own_ops.h) makes it.
#pragma once

#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

namespace metronome {

class Op;
struct OwnOp;  // ops/rules/own_rules.h

/// Several; each once, in the order in which they were given. Copies share them.
class OwnOps {
 public:
  OwnOps() = default;
  OwnOps(std::initializer_list<OwnOp> ops);

  /// Null for an op that is not among them.
  const OwnOp* find(const Op& op) const;
  std::span<const OwnOp> all() const;
  /// Both.
  friend OwnOps operator+(const OwnOps& a, const OwnOps& b);

 private:
  explicit OwnOps(std::vector<OwnOp> ops);

  std::shared_ptr<const std::vector<OwnOp>> ops_;  ///< null: none
};

}  // namespace metronome
