#include "ops/rules/own_rules.h"

#include <algorithm>

namespace metronome {

OwnOps::OwnOps(std::initializer_list<OwnOp> ops) {
  for (const OwnOp& op : ops) add(op);
}

void OwnOps::add(const OwnOp& op) {
  if (std::ranges::find(ops_, op.kind, &OwnOp::kind) == ops_.end()) ops_.push_back(op);
}

const OwnOp* OwnOps::find(const Op& op) const {
  const auto found = std::ranges::find(ops_, op.kind(), &OwnOp::kind);
  return found == ops_.end() ? nullptr : &*found;
}

OwnOps operator+(OwnOps a, const OwnOps& b) {
  for (const OwnOp& op : b.ops_) a.add(op);
  return a;
}

}  // namespace metronome
