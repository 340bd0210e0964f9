// The eager forms. libtorch's autograd knows nothing of ranks: it is told how gradients go back.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <memory>
#include <utility>
#include <vector>

#include "distributed/collectives/all_reduce.h"
#include "distributed/ops/all_reduce.h"
#include "distributed/ops/async_all_reduce.h"
#include "distributed/ops/broadcast.h"
#include "distributed/ops/exchange.h"
#include "ops/reference/elements.h"
#include "ops/reference/table.h"

namespace metronome {
namespace {

using distributed::Communicator;

std::span<std::byte> bytes_of(const at::Tensor& x) {
  return {static_cast<std::byte*>(x.data_ptr()), x.nbytes()};
}

/// A copy of x, on the host, that `call` has changed; where x is.
template <class Call>
at::Tensor change_on_host(const at::Tensor& x, Call call) {
  const at::NoGradGuard no_gradients;
  const at::Tensor host = x.detach().cpu().clone(at::MemoryFormat::Contiguous);
  call(host);
  return host.to(x.device());
}

at::Tensor reference_all_reduce(Communicator& ranks, ReduceOp op, const at::Tensor& x) {
  return change_on_host(x, [&](const at::Tensor& host) {
    const Element element = from_torch(host.scalar_type());
    std::vector<std::byte> scratch(
        distributed::all_reduce_scratch(element, host.numel(), ranks.size()));
    distributed::all_reduce(ranks, op, element, bytes_of(host), scratch);
  });
}

at::Tensor reference_reduce(Communicator& ranks, int root, const at::Tensor& x) {
  const at::Tensor sum = reference_all_reduce(ranks, ReduceOp::sum, x);
  return ranks.rank() == root ? sum : sum.zero_();
}

at::Tensor broadcast_from(Communicator& ranks, int root, const at::Tensor& x) {
  return change_on_host(x, [&](const at::Tensor& host) { ranks.broadcast(bytes_of(host), root); });
}

/// Returns what `call` makes of x's bytes, as a tensor of `rows` rows.
template <class Call>
at::Tensor make_on_host(const at::Tensor& x, std::int64_t rows, Call call) {
  const at::NoGradGuard no_gradients;
  const at::Tensor from = x.detach().cpu().contiguous();
  std::vector<std::int64_t> sizes = from.sizes().vec();
  sizes[0] = rows;
  const at::Tensor to = at::empty(sizes, from.options());
  call(bytes_of(from), bytes_of(to), from_torch(from.scalar_type()));
  return to.to(x.device());
}

at::Tensor reference_all_gather(Communicator& ranks, const at::Tensor& x) {
  return make_on_host(x, x.size(0) * ranks.size(),
                      [&](auto from, auto to, Element) { ranks.all_gather(from, to); });
}

at::Tensor reference_all_to_all(Communicator& ranks, const at::Tensor& x) {
  return make_on_host(x, x.size(0),
                      [&](auto from, auto to, Element) { ranks.all_to_all(from, to); });
}

at::Tensor reference_reduce_scatter(Communicator& ranks, ReduceOp op, const at::Tensor& x) {
  return make_on_host(x, x.size(0) / ranks.size(), [&](auto from, auto to, Element element) {
    std::vector<std::byte> scratch(distributed::reduce_scatter_scratch(from.size()));
    distributed::reduce_scatter(ranks, op, element, from, to, scratch);
  });
}

/// The autograd node of a collective: `back` makes the operand's gradient from the result's.
template <class Back>
struct Gradient final : torch::autograd::Node {
  explicit Gradient(Back made) : back(std::move(made)) {}
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    return {gradients[0].defined() ? back(gradients[0]) : at::Tensor()};
  }
  Back back;
};

/// `value`, made of x outside of autograd.
template <class Back>
Tensors with_gradient(const at::Tensor& x, const at::Tensor& value, Back back) {
  if (!at::GradMode::is_enabled() || !x.requires_grad()) return {value};
  const auto node = std::make_shared<Gradient<Back>>(std::move(back));
  node->set_next_edges(torch::autograd::collect_next_edges(x));
  torch::autograd::set_history(value, node);
  return {value};
}

}  // namespace

Tensors reference(const AllReduce& op, const Tensors& inputs) {
  const at::Tensor& x = inputs[0];
  const at::Tensor y = reference_all_reduce(*op.ranks, op.op, x);
  if (op.op == ReduceOp::sum || op.op == ReduceOp::mean) {
    return with_gradient(
        x, y, [=](const at::Tensor& g) { return reference_all_reduce(*op.ranks, op.op, g); });
  }
  const at::Tensor mine = x.detach().eq(y);
  return with_gradient(x, y, [=](const at::Tensor& g) {
    const at::Tensor ones = mine.to(g.scalar_type());
    const at::Tensor all = reference_all_reduce(*op.ranks, ReduceOp::sum, ones);
    return ones * (reference_all_reduce(*op.ranks, ReduceOp::sum, g) / all);
  });
}

Tensors reference(const BeginMean& op, const Tensors& inputs) {
  return {reference_all_reduce(*op.ranks, ReduceOp::mean, inputs[0]),
          at::empty({0}, inputs[0].options())};
}

Tensors reference(const FinishMean&, const Tensors& inputs) { return {inputs[0]}; }

Tensors reference(const Broadcast& op, const Tensors& inputs) {
  return with_gradient(
      inputs[0], broadcast_from(*op.ranks, op.root, inputs[0]),
      [=](const at::Tensor& g) { return reference_reduce(*op.ranks, op.root, g); });
}

Tensors reference(const ReduceTo& op, const Tensors& inputs) {
  return with_gradient(inputs[0], reference_reduce(*op.ranks, op.root, inputs[0]),
                       [=](const at::Tensor& g) { return broadcast_from(*op.ranks, op.root, g); });
}

Tensors reference(const AllGather& op, const Tensors& inputs) {
  return with_gradient(
      inputs[0], reference_all_gather(*op.ranks, inputs[0]),
      [=](const at::Tensor& g) { return reference_reduce_scatter(*op.ranks, ReduceOp::sum, g); });
}

Tensors reference(const ReduceScatter& op, const Tensors& inputs) {
  const at::Tensor& x = inputs[0];
  const at::Tensor y = reference_reduce_scatter(*op.ranks, op.op, x);
  if (op.op == ReduceOp::sum || op.op == ReduceOp::mean) {
    return with_gradient(x, y, [=](const at::Tensor& g) {
      const at::Tensor all = reference_all_gather(*op.ranks, g);
      return op.op == ReduceOp::sum ? all : all / static_cast<double>(op.size);
    });
  }
  const at::Tensor mine = x.detach().eq(reference_all_gather(*op.ranks, y));
  return with_gradient(x, y, [=](const at::Tensor& g) {
    const at::Tensor ones = mine.to(g.scalar_type());
    return ones * reference_all_gather(
                      *op.ranks, g / reference_reduce_scatter(*op.ranks, ReduceOp::sum, ones));
  });
}

Tensors reference(const AllToAll& op, const Tensors& inputs) {
  return with_gradient(inputs[0], reference_all_to_all(*op.ranks, inputs[0]),
                       [=](const at::Tensor& g) { return reference_all_to_all(*op.ranks, g); });
}

}  // namespace metronome
