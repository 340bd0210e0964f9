// Numbers of all ranks as one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "distributed/collectives/communicator.h"
#include "graph/ir/type.h"
#include "ops/rules/reduce_op.h"

namespace metronome::distributed {

/// Whether `all_reduce` knows it: of f32 and f64 all, of i64 all but the mean.
bool reduces(ReduceOp op, Element element);

/// Bytes of scratch that `reduce_scatter` takes for so many bytes of all parts, a multiple of 64.
std::size_t reduce_scatter_scratch(std::size_t bytes);

/// `from` holds size() parts as long as `to`: part r of all ranks, joined in their order, comes to
/// rank r's `to`. scratch: at least `reduce_scatter_scratch`, aligned to 64 bytes; InternalError
/// for less.
void reduce_scatter(Communicator& ranks, ReduceOp op, Element element,
                    std::span<const std::byte> from, std::span<std::byte> to,
                    std::span<std::byte> scratch);

/// Bytes of scratch that `all_reduce` takes for so many elements, a multiple of 64.
std::size_t all_reduce_scratch(Element element, std::int64_t count, int ranks);

/// Each element becomes the sum, mean, maximum or minimum of all ranks' elements at its place; a
/// NaN of any rank stays one. Sums are made in the order of the ranks, in the elements' own type
/// (integers wrap around), so that bits depend on neither where an element lies nor how many there
/// are, nor on time. If there are few elements, each rank gets all of the others' and computes all
/// results. If there are many, each rank computes one part, for which it gets the others' elements,
/// and sends it to all:
///   rank 0  a0 a1 | b0 b1       rank 0  a0+c0 a1+c1
///   rank 1  c0 c1 | d0 d1       rank 1  b0+d0 b1+d1      then all four sums, on both
/// values: whole elements, in place. scratch: at least `all_reduce_scratch`, aligned to 64 bytes;
/// InternalError for less.
void all_reduce(Communicator& ranks, ReduceOp op, Element element, std::span<std::byte> values,
                std::span<std::byte> scratch);

}  // namespace metronome::distributed
