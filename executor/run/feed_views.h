// The feeds of a call, whichever library their tensors come from. Internal to executor/.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "executor/support/tensor.h"
#include "graph/ir/value.h"

namespace metronome::executor {

/// One feed. It shows what the caller holds until the call returns.
struct FeedView {
  const Value* input = nullptr;  ///< absent if the input is given by name
  std::string_view name;
  CallerTensor offered;
};

/// The feeds of one call, as its library has them.
class FeedViews {
 public:
  virtual ~FeedViews() = default;
  virtual std::size_t size() const = 0;
  /// Writes over `feed`, whose memory it uses again: a step allocates nothing for its feeds.
  virtual void show(std::size_t index, FeedView& feed) const = 0;
  /// An owner of this feed's bytes; null where they are lent.
  virtual std::shared_ptr<void> owner_of(std::size_t index) const = 0;
};

}  // namespace metronome::executor
