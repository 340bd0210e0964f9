#include "ops/rules/own_rules.h"

#include <algorithm>
#include <utility>

namespace metronome {

OwnOps::OwnOps(std::initializer_list<OwnOp> ops) : OwnOps(std::vector<OwnOp>(ops)) {}

OwnOps::OwnOps(std::vector<OwnOp> ops) {
  std::vector<OwnOp> each;
  for (const OwnOp& op : ops) {
    if (std::ranges::find(each, op.kind, &OwnOp::kind) == each.end()) each.push_back(op);
  }
  ops_ = std::make_shared<const std::vector<OwnOp>>(std::move(each));
}

std::span<const OwnOp> OwnOps::all() const {
  return ops_ == nullptr ? std::span<const OwnOp>() : std::span<const OwnOp>(*ops_);
}

const OwnOp* OwnOps::find(const Op& op) const {
  const auto found = std::ranges::find(all(), op.kind(), &OwnOp::kind);
  return found == all().end() ? nullptr : &*found;
}

OwnOps operator+(const OwnOps& a, const OwnOps& b) {
  std::vector<OwnOp> both(a.all().begin(), a.all().end());
  both.insert(both.end(), b.all().begin(), b.all().end());
  return OwnOps(std::move(both));
}

}  // namespace metronome
