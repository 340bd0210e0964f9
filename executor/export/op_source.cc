#include "executor/export/op_source.h"

#include <fmt/format.h>

#include <cstddef>
#include <string_view>

#include "executor/export/fields.h"
#include "ops/group/strip_program.h"
#include "ops/ops.h"

namespace metronome::exported {
namespace {

/// "Softmax" of metronome::Softmax.
template <class T>
constexpr std::string_view struct_name() {
  constexpr std::string_view kText = __PRETTY_FUNCTION__, kBefore = "T = metronome::";
  constexpr std::size_t kBegin = kText.find(kBefore) + kBefore.size();
  return kText.substr(kBegin, kText.find_first_of(";]", kBegin) - kBegin);
}

template <class T>
OpSource source_as(const T& op) {
  return {std::string(struct_name<T>()), std::string(struct_name<T>()) + source_of(op)};
}

/// Its bytes as a string: a list of them would be code.
OpSource source_of_constant(const Constant& op) {
  std::string text;
  for (const std::byte each : op.bytes)
    text += fmt::format("\\{:03o}", static_cast<unsigned>(each));
  return {"Constant", fmt::format("Constant{{bytes_in(\"{}\", {}), {}}}", text, op.bytes.size(),
                                  source_of(op.type))};
}

template <class... Ops>
std::optional<OpSource> source_among(const Op& op, OpList<Ops...>) {
  std::optional<OpSource> found;
  const auto try_one = [&]<class T>(const T* as) {
    if (as != nullptr) found = source_as(*as);
  };
  (try_one(op.as<Ops>()), ...);
  return found;
}

}  // namespace

std::optional<OpSource> op_source(const Op& op) {
  if (const auto* group = op.as<Group>()) return source_as(strip_program(*group));
  if (const auto* constant = op.as<Constant>()) return source_of_constant(*constant);
  if (auto found = source_among(op, KernelOps())) return found;
  return source_among(op, CpuOps());
}

}  // namespace metronome::exported
