#include "graph/compounds/channels_last.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "graph/ir/op_model.h"

namespace metronome {
namespace {

bool is_plain(std::size_t rank) { return rank < 3; }

Type declared_type(Type type) {
  if (!is_plain(type.shape.size())) {
    std::rotate(type.shape.begin() + 1, type.shape.end() - 1, type.shape.end());
  }
  return type;
}

Type stored_type(const Type& type) { return apply_layout(channels_last(type.shape.size()), type); }

}  // namespace

Layout channels_last(std::size_t rank) {
  Layout layout;
  if (is_plain(rank)) return layout;
  layout.order.push_back(0);
  for (std::size_t d = 2; d < rank; ++d) layout.order.push_back(static_cast<std::int32_t>(d));
  layout.order.push_back(1);
  return layout;
}

Types declared_types(std::span<const Type> stored) {
  Types types;
  std::ranges::transform(stored, std::back_inserter(types), declared_type);
  return types;
}

Types stored_types(std::span<const Type> declared) {
  Types types;
  std::ranges::transform(declared, std::back_inserter(types), stored_type);
  return types;
}

std::string ChannelsLast::attributes() const {
  const std::string own = op->attributes();
  return std::string(op->name()) + (own.empty() ? "" : ", ") + own;
}

Types ChannelsLast::infer(std::span<const Type> in) const {
  return stored_types(op->infer(declared_types(in)));
}

double ChannelsLast::flops(std::span<const Type> in, std::span<const Type> out) const {
  return op->flops(declared_types(in), declared_types(out));
}

std::optional<LaidOutOp> lay_out_channels_last(const OpPtr& op, std::span<const Type> types,
                                               const Layout& layout) {
  std::size_t rank = 0;
  for (const Type& type : types) rank = std::max(rank, type.shape.size());
  if (is_plain(rank) || layout != channels_last(rank)) return std::nullopt;
  LaidOutOp laid{make_op(ChannelsLast{op}), {}, {}};
  for (const Type& type : types) laid.operands.push_back(channels_last(type.shape.size()));
  for (const Type& type : op->infer(types)) {
    laid.results.push_back(channels_last(type.shape.size()));
  }
  return laid;
}

}  // namespace metronome
