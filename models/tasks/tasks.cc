#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "graph/ir/error.h"
#include "models/images/images.h"
#include "models/pendulum/pendulum.h"
#include "models/tasks/task.h"
#include "models/text/text.h"

namespace metronome::models {

std::int64_t TaskOptions::batch_of_rank() const {
  if (batch % share.ranks == 0) return batch / share.ranks;
  const std::int64_t more = (batch / share.ranks + 1) * share.ranks;
  throw RunError(
      fmt::format("a batch of {} rows cannot be shared out evenly among {} ranks: give --batch {}",
                  batch, share.ranks, more));
}

std::span<const TaskEntry> all_tasks() {
  static const std::array kTasks = {
      TaskEntry{"digits", "a residual tower reads 1,797 handwritten digits of 8x8 pixels", 40, 64,
                2e-3, 1, make_digits, declare_digits},
      TaskEntry{"mnist", "a convolutional network reads 5,000 of 28x28", 15, 64, 2e-3, 0,
                make_mnist, declare_mnist},
      TaskEntry{"text", "a long short-term memory learns to go on with Debian's fortunes", 5, 32,
                3e-3, 0, make_text, declare_text},
      TaskEntry{"pendulum", "an actor learns to swing up a pendulum, which lies in the step itself",
                20, 100, 1e-3, 1, make_pendulum, declare_pendulum},
  };
  return kTasks;
}

const TaskEntry* find_task(std::string_view name) {
  const auto tasks = all_tasks();
  const auto found = std::ranges::find(tasks, name, &TaskEntry::name);
  return found == tasks.end() ? nullptr : &*found;
}

std::int64_t Training::epochs_done() const {
  if (step_.replays() % steps_per_epoch_ != 0) {
    throw RunError(
        fmt::format("the checkpoint was written after {} steps, which are no whole epochs of {} "
                    "steps: resume with the batch that it was trained with",
                    step_.replays(), steps_per_epoch_));
  }
  return step_.replays() / steps_per_epoch_;
}

std::string data_path(std::string_view variable, std::string_view what, std::string_view found) {
  const char* named = std::getenv(std::string(variable).c_str());
  if (named == nullptr) {
    throw RunError(
        fmt::format("{} is not set: start through ./metronome, which fetches {}, or let it name {}",
                    variable, what, found));
  }
  if (*named == '\0') {
    throw RunError(
        fmt::format("{} is empty, as ./metronome could not fetch {}: run `./metronome setup` "
                    "again, or let it name {}",
                    variable, what, found));
  }
  return named;
}

}  // namespace metronome::models
