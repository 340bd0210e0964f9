#include "graph/ir/guarded.h"

#include <fmt/format.h>

#include "graph/ir/error.h"
#include "graph/ir/value.h"
#include "graph/rules/gradient.h"
#include "graph/rules/guards.h"

namespace metronome {
namespace {

void require_inputs(std::size_t count, std::size_t must) {
  if (count != must) throw Requirement{fmt::format("{} operands, but {}", must, count)};
}

void require_boolean(const Type& type) {
  if (type != Type{bool_, {}}) {
    throw Requirement{fmt::format("a boolean scalar bool[], but {}", to_string(type))};
  }
}

}  // namespace

std::string Guard::attributes() const {
  return cases == 2 ? fmt::format("when={}", when) : fmt::format("when={} of {}", when, cases);
}
Types Guard::infer(std::span<const Type> in) const {
  require_inputs(in.size(), nested ? 2 : 1);
  if (in[0].rank() != 0 || is_floating(in[0].element)) {
    throw Requirement{
        fmt::format("a scalar bool[], i32[] or i64[] that decides, but {}", to_string(in[0]))};
  }
  if (in[0].element == bool_ && cases != 2) {
    throw Requirement{fmt::format("2 cases of a boolean, but {}", cases)};
  }
  if (when < 0 || when >= cases) {
    throw Requirement{fmt::format("a case from 0 to {}, but {}", cases - 1, when)};
  }
  if (nested) require_boolean(in[1]);
  return {Type{bool_, {}}};
}
std::vector<Condition> Guard::read_if(std::size_t operand) const {
  if (!nested || operand != 0) return {};
  return {{1, true}};
}

std::string Merge::attributes() const { return otherwise ? "" : "else zero"; }
Types Merge::infer(std::span<const Type> in) const {
  require_inputs(in.size(), static_cast<std::size_t>(2 * branches + (otherwise ? 1 : 0)));
  for (int k = 0; k < branches; ++k) {
    require_boolean(in[2 * k]);
    if (in[2 * k + 1] != in[1]) {
      throw Requirement{fmt::format("values of one type, but {} and {}", to_string(in[1]),
                                    to_string(in[2 * k + 1]))};
    }
  }
  if (in.back() != in[1] && otherwise) {
    throw Requirement{
        fmt::format("values of one type, but {} and {}", to_string(in[1]), to_string(in.back()))};
  }
  return {in[1]};
}
Values Merge::vjp(const Vjp& v) const {
  Values gradients(v.inputs.size());
  for (int k = 0; k < branches; ++k) gradients[2 * k + 1] = v.grad();
  if (otherwise) gradients.back() = v.grad();
  return gradients;
}
std::vector<InPlace> Merge::in_place() const {
  // Over what stands where no branch ran, where that serves: then nothing is left to do.
  std::vector<InPlace> rights;
  if (otherwise) rights.push_back({0, 2 * branches});
  for (int k = 0; k < branches; ++k) rights.push_back({0, 2 * k + 1});
  return rights;
}
std::vector<Condition> Merge::read_if(std::size_t operand) const {
  const int index = static_cast<int>(operand);
  std::vector<Condition> conditions;
  if (index == 2 * branches) {
    for (int k = 0; k < branches; ++k) conditions.push_back({2 * k, false});
  } else if (index % 2 == 1) {
    conditions.push_back({index - 1, true});
  }
  return conditions;
}
int Merge::idle_unless(InPlace placed) const {
  return branches == 1 && otherwise && placed.input == 2 ? 0 : -1;
}

Types AccumulateIf::infer(std::span<const Type> in) const {
  require_inputs(in.size(), 3);
  if (in[0] != in[1]) {
    throw Requirement{
        fmt::format("equal types, but {} and {}", to_string(in[0]), to_string(in[1]))};
  }
  require_boolean(in[2]);
  return {in[0]};
}
std::vector<Condition> AccumulateIf::read_if(std::size_t operand) const {
  if (operand != 1) return {};
  return {{2, true}};
}

}  // namespace metronome
