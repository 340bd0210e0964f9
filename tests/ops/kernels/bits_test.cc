// Equal bits: over an operand as beside it, and at every position of an elementwise op.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "ops/ops.h"
#include "tests/doctest.h"
#include "tests/ops/case_graph.h"
#include "tests/ops/interpreter.h"
#include "tests/ops/structural_cases.h"

namespace metronome::bits_test {

namespace {

using Blocks = std::vector<std::unique_ptr<GuardedBytes>>;

/// One node of a case: types, and operands that kernels may overwrite.
struct Launch {
  explicit Launch(const CaseGraph& c) : op(c.op()) {
    for (std::size_t i = 0; i < c.operands(); ++i) {
      in.push_back({from_torch(c.tensors[i].scalar_type()), c.tensors[i].sizes().vec()});
      operands.push_back(c.tensors[i]);
    }
    out = op.infer(in);  // saved ones, too
  }

  Blocks fresh_operands() const {
    Blocks blocks;
    for (const at::Tensor& x : operands) {
      blocks.push_back(std::make_unique<GuardedBytes>(x.nbytes()));
      if (x.nbytes() > 0) std::memcpy(blocks.back()->data(), x.data_ptr(), x.nbytes());
    }
    return blocks;
  }
  Blocks fresh_outputs() const {
    Blocks blocks;
    for (const Type& type : out) blocks.push_back(std::make_unique<GuardedBytes>(type.bytes()));
    return blocks;
  }

  const Op& op;
  Types in, out;
  std::vector<at::Tensor> operands;
};

std::vector<void*> pointers(const Blocks& blocks) {
  std::vector<void*> result;
  for (const auto& block : blocks) result.push_back(block->data());
  return result;
}

bool equal_bytes(const void* a, const void* b, std::size_t bytes) {
  return bytes == 0 || std::memcmp(a, b, bytes) == 0;
}

// Each pair that the op declares, alone and all of them together.
void check_in_place(const Case& c, Element element) {
  const CaseGraph graph(c, element, false);
  const Launch launch(graph);
  std::vector<std::vector<InPlace>> sets;
  std::vector<InPlace> together;
  for (const InPlace& pair : launch.op.in_place()) {
    if (launch.in[pair.input].bytes() != launch.out[pair.output].bytes()) continue;
    sets.push_back({pair});
    const auto taken = [&](const InPlace& p) { return p.output == pair.output; };
    if (std::none_of(together.begin(), together.end(), taken)) together.push_back(pair);
  }
  if (together.size() > 1) sets.push_back(together);

  for (const Candidate& choice : kernels_of(launch.op, launch.in, launch.out, 2)) {
    const Blocks beside_in = launch.fresh_operands(), beside = launch.fresh_outputs();
    launch_kernel(launch.op, launch.in, launch.out, pointers(beside_in), pointers(beside), choice);
    for (const auto& set : sets) {
      const Blocks in = launch.fresh_operands(), out = launch.fresh_outputs();
      std::vector<void*> outputs = pointers(out);
      for (const InPlace& pair : set) outputs[pair.output] = in[pair.input]->data();
      launch_kernel(launch.op, launch.in, launch.out, pointers(in), outputs, choice);
      for (std::size_t k = 0; k < launch.out.size(); ++k) {
        INFO(launch.op.name(), " \"", c.name, "\" ", name_of(choice), " output ", k,
             " over operand ", set[0].input);
        CHECK(equal_bytes(outputs[k], beside[k]->data(), launch.out[k].bytes()));
      }
    }
  }
}

// Elements from `skip` on as a computation of their own: other places in vectors and tails.
void check_positions(const Case& c, Element element) {
  const CaseGraph graph(c, element, false);
  const Launch launch(graph);
  const std::int64_t n = launch.out[0].numel();
  const Shape& shape = launch.out[0].shape;
  for (const Type& type : launch.in) {
    if (type.shape != shape && type.rank() != 0) return;  // broadcast: no flat form
  }
  const Candidate one_thread = kernels_of(launch.op, launch.in, launch.out, 1).front();
  const Blocks in = launch.fresh_operands(), out = launch.fresh_outputs();
  launch_kernel(launch.op, launch.in, launch.out, pointers(in), pointers(out), one_thread);

  for (const std::int64_t skip : {1, 2, 3, 5, 7, 8, 11, 15}) {
    if (skip >= n || shape.empty()) return;
    Types in_types = launch.in, out_types = launch.out;
    std::vector<void*> operands = pointers(in);
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (in_types[i].rank() == 0) continue;
      in_types[i].shape = {n - skip};
      operands[i] = static_cast<std::byte*>(operands[i]) + skip * size_of(in_types[i].element);
    }
    Blocks parts;
    for (Type& type : out_types) {
      type.shape = {n - skip};
      parts.push_back(std::make_unique<GuardedBytes>(type.bytes()));
    }
    const auto choice = kernels_of(launch.op, in_types, out_types, 2).front();
    launch_kernel(launch.op, in_types, out_types, operands, pointers(parts), choice);
    for (std::size_t k = 0; k < parts.size(); ++k) {
      INFO(launch.op.name(), " \"", c.name, "\" from element ", skip);
      CHECK(equal_bytes(parts[k]->data(), out[k]->data() + skip * size_of(out_types[k].element),
                        parts[k]->size()));
    }
  }
}

template <class Check, class... Ops>
void each_case(OpList<Ops...>, const Check& check) {
  const auto run = [&](const std::vector<Case>& cases) {
    for (const Case& c : cases) {
      for (const Element element : {f32, f64}) check(c, element);
    }
  };
  (run(CasesOf<Ops>::cases()), ...);
}

}  // namespace

TEST_CASE("a result over its operand has the bits of a result beside it") {
  each_case(KernelOps{}, check_in_place);
  each_case(CpuOps{}, check_in_place);
}

TEST_CASE("an element's bits depend neither on its position nor on threads") {
  each_case(OpList<Elementwise, Cast, Accumulate, AdamUpdate, SgdUpdate, AverageUpdate>{},
            check_positions);
}

}  // namespace metronome::bits_test
