// Every op of the list x its cases x f32 and f64, against libtorch.
#include <ATen/Parallel.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <set>

#include "graph/rules/gradient.h"
#include "ops/cpu/table.h"
#include "ops/ops.h"
#include "ops/reference/table.h"
#include "tests/doctest.h"
#include "tests/ops/asked.h"
#include "tests/ops/interpreter.h"
#include "tests/ops/oracle.h"
#include "tests/ops/parameter_gradients.h"
#include "tests/ops/structural_cases.h"

namespace metronome::conformance_test {

namespace {

void set_all(Interpreter& run, const CaseGraph& c) {
  for (std::size_t i = 0; i < c.names.size(); ++i) run.set(c.names[i], c.tensors[i]);
}

Tensors outputs_of(const ir::Graph& graph, const Interpreter& run) {
  Tensors outputs;
  for (const Readable& r : graph.readables()) {
    if (r.name != "loss") outputs.push_back(run.tensor(r.value).clone());
  }
  return outputs;
}

// Values: every kernel that could run the op, on one thread and on two, on aligned operands and on
// operands that are views; each twice. Writes outside of the outputs make the interpreter throw.
Trouble check_values(const Case& c, Element element, const Settings& form) {
  const CaseGraph declared(c, element, false);
  const ir::Graph graph = passes::lower(declared.graph, form);
  const Tensors operands(declared.tensors.begin(), declared.tensors.begin() + declared.operands());
  const Tensors expected = reference(declared.op(), operands);
  const double allowed = tolerance(declared.op(), c.name, element, c.sums);

  for (const int threads : {1, 2}) {
    for (const bool views : {false, true}) {
      std::size_t kernels = 1;
      for (std::size_t kernel = 0; kernel < kernels; ++kernel) {
        std::string name;
        const auto choose = [&](std::int32_t node, const std::vector<Candidate>& candidates) {
          if (graph.nodes()[node].op->kind() != declared.op().kind()) return std::size_t{0};
          kernels = candidates.size();
          name = name_of(candidates[kernel]);
          return kernel;
        };
        Interpreter first(graph, threads, views), second(graph, threads, views);
        set_all(first, declared), set_all(second, declared);
        first.run(choose), second.run(choose);
        const Tensors outputs = outputs_of(graph, first), again = outputs_of(graph, second);
        const auto where = [&](const std::string& what) {
          return fmt::format("{} (kernel {}, {} threads{})", what, name, threads,
                             views ? ", views" : "");
        };
        if (auto trouble = compare(outputs, expected, allowed)) return where(*trouble);
        for (std::size_t k = 0; k < outputs.size(); ++k) {
          if (!same_bits(outputs[k], again[k])) return where("other bits the second time");
        }
      }
    }
  }
  return std::nullopt;
}

// Gradients by the op's rule and kernels.
Tensors gradients_of(const ir::Graph& graph, const Interpreter& run) {
  Tensors gradients;
  for (const ParameterGradient& g : parameter_gradients(graph)) {
    gradients.push_back(run.tensor(g.value).clone());
  }
  return gradients;
}

// f32 has no digits left for differences, and a cast to it is no smooth function.
bool all_f64(const CaseGraph& c) {
  const auto has_f32 = [](const Node& node) {
    return std::any_of(node.types.begin(), node.types.end(),
                       [](const Type& type) { return type.element == f32; });
  };
  return std::ranges::none_of(c.graph.data().nodes(), has_f32);
}

// Central differences of the loss that the kernels compute, one operand element at a time.
Trouble finite_differences(const CaseGraph& c, const ir::Graph& graph, const Tensors& gradients) {
  constexpr double kStep = 1e-5;
  for (std::size_t k = 0; k < gradients.size(); ++k) {
    const std::string& path = graph.storage(parameter_gradients(graph)[k].parameter).path;
    const auto i = std::find(c.names.begin(), c.names.end(), path) - c.names.begin();
    Interpreter run(graph);
    set_all(run, c);
    const auto loss_at = [&](std::int64_t element, double moved) {
      at::Tensor x = c.tensors[i].clone();
      x.data_ptr<double>()[element] += moved;
      run.set(path, x);
      run.run();
      return run.tensor(graph.objectives()[0].loss).item<double>();
    };
    at::Tensor slopes = at::empty_like(c.tensors[i]);
    for (std::int64_t e = 0; e < slopes.numel(); ++e) {
      slopes.data_ptr<double>()[e] = (loss_at(e, kStep) - loss_at(e, -kStep)) / (2 * kStep);
    }
    if (auto trouble = difference(gradients[k], slopes, 1e-5)) {
      return fmt::format("finite differences of {}: {}", path, *trouble);
    }
  }
  return std::nullopt;
}

Trouble check_gradients(const Case& c, Element element, const Settings& form) {
  const CaseGraph declared(c, element, true);
  const ir::Graph graph = passes::differentiate(passes::lower(declared.graph, form), {});
  std::int64_t elements = 0;
  for (std::size_t i = 0; i < declared.operands(); ++i) {
    if (declared.parameter[i]) elements += declared.tensors[i].numel();
  }
  const auto wanted = std::count(declared.parameter.begin(), declared.parameter.end(), true);
  if (static_cast<std::ptrdiff_t>(parameter_gradients(graph).size()) != wanted) {
    return fmt::format("{} gradients in place of {}", parameter_gradients(graph).size(), wanted);
  }

  const Tensors expected = autograd(declared, graph);
  const double allowed = tolerance(declared.op(), c.name, element, c.sums);
  Tensors gradients;
  for (const int threads : {1, 2}) {
    Interpreter run(graph, threads);
    set_all(run, declared);
    run.run();
    gradients = gradients_of(graph, run);
    for (std::size_t k = 0; k < gradients.size(); ++k) {
      if (auto trouble = difference(gradients[k], expected[k], allowed)) {
        const std::string& path = graph.storage(parameter_gradients(graph)[k].parameter).path;
        return fmt::format("gradient of {}: {} ({} threads)", path, *trouble, threads);
      }
    }
  }
  constexpr std::int64_t kSmall = 200;
  if (elements > kSmall || !all_f64(declared)) return std::nullopt;
  return finite_differences(declared, graph, gradients);
}

Trouble check_case(const Case& c, Element element) {
  try {
    for (const Settings& form : forms_of(*c.op, [](const Op& op) { return cpu_table().has(op); })) {
      if (auto trouble = check_values(c, element, form)) return trouble;
      const bool wanted = c.gradient && differentiable(*c.op);
      if (!wanted) continue;
      if (auto trouble = check_gradients(c, element, form)) return trouble;
    }
    return std::nullopt;
  } catch (const std::exception& error) {
    return error.what();
  } catch (const Requirement& requirement) {
    return "the shape rule requires " + requirement.requires_;
  }
}

template <class Op>
void check_op() {
  const std::vector<Case> cases = CasesOf<Op>::cases();
  std::set<std::string_view> names;
  for (const Case& c : cases) {
    if (!asked_for(c.op->name())) continue;
    names.insert(c.op->name());
    for (const Element element : {f32, f64}) {
      const Trouble trouble = check_case(c, element);
      INFO(c.op->name(), "(", c.op->attributes(), ") \"", c.name, "\" ", name_of(element), ": ",
           trouble.value_or(""));
      CHECK_FALSE(trouble.has_value());
    }
  }
  if (asked_for_all() || !names.empty())
    fmt::print("{:<4} cases of {}\n", cases.size(), fmt::join(names, ", "));
  // An op without cases is an op that nothing checks.
  CHECK_FALSE(cases.empty());
}

template <class... Ops>
void check_ops(OpList<Ops...>) {
  (check_op<Ops>(), ...);
}

}  // namespace

TEST_CASE("kernels agree with libtorch, in value and gradient") {
  fmt::print("instruction set {}\n", cpu_table().isa());
  // Two pools of threads, libtorch's and the kernels', would spin for the same cores.
  at::set_num_threads(1);
  check_ops(KernelOps{});
  check_ops(CpuOps{});
}

TEST_CASE("views agree with libtorch") { check_ops(ViewOps{}); }

TEST_CASE("expansions of composites agree with libtorch") { check_ops(CompositeOps{}); }

}  // namespace metronome::conformance_test
