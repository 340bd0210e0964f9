#include "distributed/ops/collective_ops.h"

#include <fmt/format.h>

#include "distributed/ops/all_reduce.h"
#include "distributed/ops/async_all_reduce.h"
#include "distributed/ops/broadcast.h"
#include "distributed/ops/exchange.h"
#include "distributed/ops/sync_batch_norm.h"
#include "graph/ir/error.h"
#include "graph/ir/op_model.h"
#include "ops/own/own_ops.h"

namespace metronome::distributed {
namespace {

template <class T>
OpPtr one_for_ranks(const Op& op, const std::shared_ptr<Communicator>& ranks) {
  const T* own = op.as<T>();
  if (own == nullptr) return nullptr;
  T changed = *own;
  if constexpr (requires { changed.root; }) {
    if (changed.root >= ranks->size()) {
      throw Requirement{fmt::format("a rank below {}, but root {}", ranks->size(), changed.root)};
    }
  }
  if constexpr (requires { changed.size; }) {
    if (changed.size != ranks->size()) {
      throw Requirement{fmt::format("the ranks that it was declared for, {}", changed.size)};
    }
  }
  changed.ranks = ranks;
  return make_op(std::move(changed));
}

template <class... Ops>
struct CollectiveList {
  static bool has(const Op& op) { return ((op.as<Ops>() != nullptr) || ...); }
  static OwnOps rules() { return own_ops<Ops...>(); }
  static OpPtr for_ranks(const Op& op, const std::shared_ptr<Communicator>& ranks) {
    OpPtr found;
    static_cast<void>(((found = one_for_ranks<Ops>(op, ranks)) || ...));
    return found;
  }
};

using KernelCollectives = CollectiveList<AllReduce, Broadcast, ReduceTo, AllGather, ReduceScatter,
                                         AllToAll, BeginMean, FinishMean>;
using CompositeCollectives = CollectiveList<SyncBatchNorm>;

}  // namespace

OwnOps collective_ops() { return KernelCollectives::rules(); }

bool is_collective(const Op& op) {
  return KernelCollectives::has(op) || CompositeCollectives::has(op);
}

OpPtr for_ranks(const Op& op, const std::shared_ptr<Communicator>& ranks) {
  OpPtr found = KernelCollectives::for_ranks(op, ranks);
  return found ? found : CompositeCollectives::for_ranks(op, ranks);
}

bool gives_all_the_same(const Op& op) {
  return op.as<AllReduce>() != nullptr || op.as<Broadcast>() != nullptr ||
         op.as<AllGather>() != nullptr;
}

}  // namespace metronome::distributed
