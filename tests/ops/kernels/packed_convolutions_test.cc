// Convolutions whose weight is packed once: oneDNN's have the bits of those that reorder it in each
// call, and those by rows are as near to f64 as libtorch's; also when the weight has changed.
#include <ATen/ops/convolution.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "ops/convolution/convolution.h"
#include "tests/doctest.h"
#include "tests/ops/interpreter.h"

namespace metronome::packed_convolutions_test {
namespace {

struct Problem {
  bool transposed;
  std::int64_t images, groups, in, out, size, kernel, stride, padding;

  std::string text() const {
    return fmt::format(
        "{}{} images, {} groups, {} to {} channels, size {}, kernel {}, stride {}, "
        "padding {}",
        transposed ? "transposed, " : "", images, groups, in, out, size, kernel, stride, padding);
  }
};

OpPtr op_of(const Problem& p) {
  ConvolutionWindow window;
  window.stride = {p.stride, p.stride};
  window.low = window.high = {p.padding, p.padding};
  window.dilation = {1, 1};
  window.groups = p.groups;
  if (!p.transposed) return make_op(Convolution{.window = window});
  return make_op(TransposedConvolution{.window = window});
}

std::vector<at::Tensor> operands_of(const Problem& p) {
  at::manual_seed(1);
  const std::int64_t from = p.transposed ? p.in : p.out, to = p.transposed ? p.out : p.in;
  return {at::randn({p.images, p.in, p.size, p.size}),
          at::randn({from, to / p.groups, p.kernel, p.kernel}), at::randn({p.out})};
}

at::Tensor by_libtorch(const Problem& p, const std::vector<at::Tensor>& operands,
                       at::ScalarType as) {
  const std::vector<std::int64_t> stride(2, p.stride), padding(2, p.padding), one(2, 1), none(2, 0);
  return at::convolution(operands[0].to(as), operands[1].to(as), operands[2].to(as), stride,
                         padding, one, p.transposed, none, p.groups);
}

double distance(const at::Tensor& found, const at::Tensor& exact) {
  return std::sqrt((found.to(at::kDouble) - exact).square().mean().item<double>() /
                   exact.square().mean().item<double>());
}

/// A kernel by one candidate over the operands, and its result.
class Bound {
 public:
  Bound(const Op& op, const Types& in, const Types& out, const std::vector<at::Tensor>& operands,
        const Candidate& choice, const std::uint64_t* version)
      : result_(at::zeros(out[0].shape)), scratch_(choice.scratch_bytes) {
    std::vector<void*> in_data, out_data = {result_.data_ptr()};
    for (const at::Tensor& x : operands) in_data.push_back(x.data_ptr());
    const std::vector<const std::uint64_t*> versions = {nullptr, version, nullptr};
    kernel_ = cpu_table().of(op).bind(op, {.inputs = in,
                                           .outputs = out,
                                           .input_data = in_data,
                                           .output_data = out_data,
                                           .scratch = scratch_.data(),
                                           .choice = choice,
                                           .versions = versions});
  }
  at::Tensor run() {
    kernel_();
    CHECK(scratch_.intact());
    return result_.clone();
  }

 private:
  at::Tensor result_;
  GuardedBytes scratch_;
  CpuKernel kernel_;
};

/// The names of the ways that are packed once.
std::vector<std::string> check(const Problem& p) {
  CAPTURE(p.text());
  const OpPtr op = op_of(p);
  std::vector<at::Tensor> operands = operands_of(p);
  Types in;
  for (const at::Tensor& x : operands) in.push_back({f32, x.sizes().vec()});
  const Types out = op->infer(in);
  const auto candidates = [&](SteadyOperands steady) {
    return cpu_table().of(*op).candidates(*op, {in, out, 2, steady});
  };
  const std::vector<Candidate> usual = candidates({});
  CHECK(std::ranges::none_of(usual, [](const Candidate& c) { return c.packed_bytes > 0; }));
  std::vector<std::string> names;
  for (const Candidate& candidate : candidates({0b10})) {
    if (candidate.packed_bytes == 0) continue;
    names.push_back(name_of(candidate));
    CAPTURE(names.back());
    const auto same = [&](const Candidate& c) {
      return c.maker == candidate.maker && c.algorithm == candidate.algorithm;
    };
    const auto in_each_call = std::ranges::find_if(usual, same);
    std::uint64_t version = 0;
    Bound packed(*op, in, out, operands, candidate, &version);
    at::Tensor before;
    for (int round = 0; round < 3; ++round) {
      const at::Tensor found = packed.run(), exact = by_libtorch(p, operands, at::kDouble);
      const double theirs = distance(by_libtorch(p, operands, at::kFloat), exact);
      CHECK(distance(found, exact) <= 2 * std::max(theirs, 0x1p-23));
      if (in_each_call != usual.end()) {
        CHECK(at::equal(Bound(*op, in, out, operands, *in_each_call, nullptr).run(), found));
      }
      CHECK((!before.defined() || !at::equal(found, before)));
      before = found;
      operands[1].mul_(-0.75).add_(0.125);
      CHECK(at::equal(packed.run(), before));  // it has not been told
      ++version;
    }
  }
  return names;
}

TEST_CASE("a convolution whose weight is packed once is right, and follows the weight") {
  int turned = 0, onednn = 0;
  for (const Problem& p : std::vector<Problem>{
           {false, 1, 1, 3, 8, 4, 3, 1, 1},
           {false, 1, 1, 64, 64, 1, 3, 1, 1},
           {false, 1, 1, 32, 65, 2, 3, 1, 1},
           {false, 4, 1, 16, 30, 2, 3, 1, 1},
           {false, 3, 1, 8, 17, 5, 4, 2, 1},
           {false, 2, 2, 8, 12, 4, 3, 1, 0},
           {false, 1, 1, 64, 128, 16, 3, 1, 1},
           {false, 2, 1, 32, 64, 16, 4, 2, 1},
           {true, 1, 1, 64, 32, 1, 4, 2, 1},
           {true, 1, 1, 64, 32, 16, 4, 2, 1},
           {true, 2, 1, 128, 64, 8, 4, 2, 1},
       }) {
    for (const std::string& name : check(p)) {
      turned += name == "own 4, packed once" ? 1 : 0;
      onednn += name == "onednn, packed once" ? 1 : 0;
    }
  }
  CHECK(turned == 6);
  CHECK(onednn > 0);
}

}  // namespace
}  // namespace metronome::packed_convolutions_test
