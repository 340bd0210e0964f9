// Lookups by index. An index out of range is an error of ONNX Runtime, and reads zero here: such
// indices are moved into the range first.
#include <optional>

#include "executor/onnx/mappings.h"
#include "ops/embedding/embedding.h"
#include "ops/gather/gather.h"
#include "ops/pick/pick.h"

namespace metronome::onnx {
namespace {

/// An index, moved to 0 where nothing has it, and whether something does.
struct SafeIndex {
  Term index, is_there;
};

/// `size`: how many elements there are, in each graph.
SafeIndex make_safe(const Term& index, const NumberByGraph& size,
                    std::optional<std::int64_t> ignored) {
  NodeWriter& writer = *index.writer;
  const Term wide = cast(index, i64);
  const Term count{&writer, writer.squeeze(writer.size(size), 0), i64};
  Term is_there = ask("And", {wide >= 0, ask("Less", {wide, count})});
  if (ignored) {
    const Term is_ignored = wide == static_cast<double>(*ignored);
    is_there = ask("And", {is_there, ask("Not", {is_ignored})});
  }
  return {select(is_there, wide, number_like(wide, 0)), is_there};
}

Term or_zero(const Term& is_there, const Term& x) {
  return select(is_there, x, x.element == bool_ ? is_there : number_like(x, 0));
}

Names write_embedding(const Embedding&, NodeWriter& writer) {
  const SafeIndex safe = make_safe(term_of(writer, 1), writer.sizes(0)[0], {});
  const Term rows{
      &writer, writer.call("Gather", {writer.in(0), safe.index.name}, {{"axis", std::int64_t{0}}}),
      writer.result().element};
  const Term whole_rows{&writer, writer.unsqueeze(safe.is_there.name, -1), bool_};
  return {or_zero(whole_rows, rows).name};
}

/// Elements along an axis, by an index of the same rank.
Term gather(NodeWriter& writer, const SafeIndex& safe, std::int64_t axis) {
  return {&writer, writer.call("GatherElements", {writer.in(0), safe.index.name}, {{"axis", axis}}),
          writer.type(0).element};
}

Names write_pick(const Pick& op, NodeWriter& writer) {
  SafeIndex safe = make_safe(term_of(writer, 1), writer.sizes(0).back(), op.ignored);
  safe.index.name = writer.unsqueeze(safe.index.name, -1);
  const Term picked = gather(writer, safe, -1);
  const Term flat{&writer, writer.squeeze(picked.name, -1), picked.element};
  return {or_zero(safe.is_there, flat).name};
}

Names write_gather(const Gather& op, NodeWriter& writer) {
  const NumberByGraph size = writer.sizes(0)[static_cast<std::size_t>(op.axis)];
  const SafeIndex safe = make_safe(term_of(writer, 1), size, {});
  return {or_zero(safe.is_there, gather(writer, safe, op.axis)).name};
}

Names write_scatter_add(const ScatterAdd& op, NodeWriter& writer) {
  const NumberByGraph size = writer.sizes(0)[static_cast<std::size_t>(op.axis)];
  const SafeIndex safe = make_safe(term_of(writer, 1), size, {});
  const Term source = or_zero(safe.is_there, term_of(writer, 2));
  return {writer.call("ScatterElements", {writer.in(0), safe.index.name, source.name},
                      {{"axis", op.axis}, {"reduction", std::string("add")}})};
}

}  // namespace

std::span<const Mapping> indexing_mappings() {
  static const Mapping kMappings[] = {
      mapping<Embedding, write_embedding>(),
      mapping<Pick, write_pick>(),
      mapping<Gather, write_gather>(),
      mapping<ScatterAdd, write_scatter_add>(),
  };
  return kMappings;
}

}  // namespace metronome::onnx
