#include "executor/cuda/program/collective_marks.h"

#include <algorithm>
#include <atomic>
#include <utility>
#include <variant>

namespace metronome::executor::program {
namespace {

/// Reads a word that the device may be writing.
cuda::Index load_word(cuda::Index& word) {
  return std::atomic_ref(word).load(std::memory_order_acquire);
}

}  // namespace

const CollectiveCommand* collective_of(const Command& command) {
  const auto* call = std::get_if<LibraryCommand>(&command);
  return call == nullptr ? nullptr : call->as<CollectiveCommand>();
}

CollectiveMarks::CollectiveMarks(CudaDriver& driver, const cuda::Control* control,
                                 std::span<Task> tasks) {
  MappedMemory mapped;
  for (Task& task : tasks) {
    if (std::ranges::none_of(task.commands, collective_of)) continue;
    CommandList marked;
    for (Command& command : task.commands) {
      const CollectiveCommand* collective = collective_of(command);
      if (collective == nullptr) {
        marked.add(std::move(command));
        continue;
      }
      if (ranks_ == nullptr) mapped = driver.mapped_memory(sizeof(cuda::StampedNumber));
      ranks_ = collective->ranks;
      const int before = 1 + 2 * static_cast<int>(names_.size());
      auto* const to = reinterpret_cast<cuda::StampedNumber*>(mapped.device);
      marked.launch(cuda::MarkCollective{control, to, before}, {.blocks = 1, .threads = 32});
      marked.add(std::move(command));
      marked.launch(cuda::MarkCollective{control, to, before + 1}, {.blocks = 1, .threads = 32});
      names_.push_back(task.kernel.kernel);
    }
    task.commands = marked.commands();
  }
  last_ = reinterpret_cast<cuda::StampedNumber*>(mapped.host);
  if (ranks_ != nullptr) ranks_->follow(*this);
}

CollectiveMarks::~CollectiveMarks() {
  if (ranks_ != nullptr) ranks_->forget(*this);
}

std::optional<CollectivePlace> CollectiveMarks::waits() const {
  // Both words come in one store; one that came in between is looked at again.
  cuda::Index step = 0, mark = 0;
  do {
    step = load_word(last_->step);
    mark = load_word(last_->bits);
  } while (step != load_word(last_->step));
  if (mark % 2 == 0) return std::nullopt;
  const auto number = static_cast<std::size_t>(mark / 2);
  return CollectivePlace{step, static_cast<std::int64_t>(number), names_[number]};
}

}  // namespace metronome::executor::program
