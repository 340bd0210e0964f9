#include <limits>
#include <optional>

#include "ops/random/random.h"

namespace metronome {

std::optional<DrawBounds> Random::bounds() const {
  using Numbers = std::numeric_limits<double>;
  switch (of) {
    case Of::nothing:
      return std::nullopt;
    case Of::probabilities:
      return DrawBounds{0, 1};
    case Of::logits:
      return DrawBounds{Numbers::lowest(), Numbers::max()};
    case Of::weights:
      break;
  }
  return DrawBounds{Numbers::denorm_min(), Numbers::max()};
}

}  // namespace metronome
