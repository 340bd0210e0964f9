#include "ops/rules/collective_ranks.h"

namespace metronome {

void CollectiveRanks::follow(const CollectiveProgress& steps) {
  const std::scoped_lock lock(mutex_);
  followed_.push_back(&steps);
}

void CollectiveRanks::forget(const CollectiveProgress& steps) {
  const std::scoped_lock lock(mutex_);
  std::erase(followed_, &steps);
}

std::optional<CollectivePlace> CollectiveRanks::waits() const {
  const std::scoped_lock lock(mutex_);
  for (const CollectiveProgress* steps : followed_) {
    if (auto place = steps->waits()) return place;
  }
  return std::nullopt;
}

}  // namespace metronome
