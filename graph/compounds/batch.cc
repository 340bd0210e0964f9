#include "graph/compounds/batch.h"

#include <fmt/format.h>

#include "graph/ir/error.h"

namespace metronome {

bool Batch::operator==(const Batch& other) const {
  return op->equals(*other.op) && count == other.count && inputs == other.inputs &&
         outputs == other.outputs;
}

std::string Batch::attributes() const { return fmt::format("{} x {}", op->name(), count); }

Types Batch::infer(std::span<const Type> in) const {
  const auto of_all = static_cast<std::size_t>(count) * static_cast<std::size_t>(inputs);
  if (in.size() != of_all) {
    throw Requirement{fmt::format("{} operands for each of {} {}, but {} in all", inputs, count,
                                  op->name(), in.size())};
  }
  Types types;
  for (int i = 0; i < count; ++i) {
    const Types made = op->infer(in.subspan(static_cast<std::size_t>(i) * inputs, inputs));
    if (made.size() != static_cast<std::size_t>(outputs)) {
      throw Requirement{
          fmt::format("{} results of each {}, but {}", outputs, op->name(), made.size())};
    }
    types.insert(types.end(), made.begin(), made.end());
  }
  return types;
}

double Batch::flops(std::span<const Type> in, std::span<const Type> out) const {
  double all = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    const auto own_in = static_cast<std::size_t>(inputs),
               own_out = static_cast<std::size_t>(outputs);
    all += op->flops(in.subspan(i * own_in, own_in), out.subspan(i * own_out, own_out));
  }
  return all;
}

std::vector<InPlace> Batch::in_place() const {
  std::vector<InPlace> rights;
  for (int i = 0; i < count; ++i) {
    for (const InPlace& right : op->in_place()) {
      rights.push_back({i * outputs + right.output, i * inputs + right.input});
    }
  }
  return rights;
}

}  // namespace metronome
