#include "distributed/join/ranks.h"

#include <fmt/format.h>

#include <utility>

#include "distributed/join/agreement.h"
#include "distributed/join/buckets.h"
#include "distributed/join/same_decisions.h"
#include "distributed/ops/all_reduce.h"
#include "distributed/ops/async_all_reduce.h"
#include "distributed/ops/collective_ops.h"
#include "graph/ir/error.h"
#include "graph/ir/op_model.h"
#include "graph/passes/walk/copier.h"

namespace metronome::distributed {
namespace {

class CommunicatorRanks final : public executor::Ranks {
 public:
  CommunicatorRanks(std::shared_ptr<Communicator> communicator,
                    std::optional<std::size_t> bucket_bytes)
      : communicator_(std::move(communicator)), bucket_bytes_(bucket_bytes) {}

  int rank() const override { return communicator_->rank(); }
  int local_rank() const override { return communicator_->local_rank(); }

  OwnOps ops() const override { return collective_ops(); }

  ir::Graph join(const ir::Graph& declared) const override {
    require_same_decisions(declared);
    passes::Copier copier(declared);
    for (std::size_t i = 0; i < declared.nodes().size(); ++i) {
      const auto index = static_cast<std::int32_t>(i);
      Node node = declared.nodes()[i];
      if (OpPtr own = for_these(node)) {
        node.op = std::move(own);
        copier.append(index, std::move(node));
      } else {
        copier.copy(index);
      }
    }
    return copier.finish();
  }

  void agree(std::span<const ir::Graph* const> declared,
             std::span<const executor::Plan> plans) const override {
    require_same_steps(*communicator_, declared[0]->name(), steps_of(declared, plans));
  }

  void begin_step(std::int64_t step) const override { communicator_->begin_step(step); }

  MeanOps averages(std::size_t bytes) const override {
    const std::size_t bucket =
        bucket_bytes_ ? *bucket_bytes_ : best_bucket_bytes(*communicator_, bytes);
    return {make_op(AllReduce{ReduceOp::mean, communicator_}), make_op(BeginMean{communicator_}),
            make_op(FinishMean{communicator_}), bucket};
  }
  void broadcast(std::span<std::byte> bytes) const override { communicator_->broadcast(bytes, 0); }
  std::vector<std::string> exchange(const std::string& text) const override {
    return communicator_->exchange(text);
  }

 private:
  OpPtr for_these(const Node& node) const {
    try {
      return for_ranks(*node.op, communicator_);
    } catch (const Requirement& missed) {
      throw GraphError(
          {fmt::format("{}: {} cannot run on {} ranks\n  requires   {}", to_string(node.line),
                       node.op->name(), communicator_->size(), missed.requires_)});
    }
  }

  std::shared_ptr<Communicator> communicator_;
  std::optional<std::size_t> bucket_bytes_;
};

}  // namespace

std::shared_ptr<const executor::Ranks> ranks_over(std::shared_ptr<Communicator> communicator,
                                                  std::optional<std::size_t> bucket_bytes) {
  return std::make_shared<CommunicatorRanks>(std::move(communicator), bucket_bytes);
}

}  // namespace metronome::distributed
