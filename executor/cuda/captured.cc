#include "executor/cuda/captured.h"

#include <fmt/format.h>

#include "graph/error.h"

namespace metronome {
namespace {

/// Runs f; an error says which task it was.
template <class F>
void naming(const Task& task, std::string_view doing, F f) {
  try {
    f();
  } catch (const RunError& error) {
    throw RunError(fmt::format("{} {}: {}", doing, task.name, error.what()));
  } catch (const InternalError& error) {
    throw InternalError(fmt::format("{} {}: {}", doing, task.name, error.what()));
  }
}

}  // namespace

StepForm::StepForm(CudaDriver& driver, std::span<const Task> tasks, StreamPlan plan,
                   std::vector<CudaStream> streams, Kind kind, int nodes)
    : driver_(&driver),
      tasks_(tasks),
      plan_(std::move(plan)),
      streams_(std::move(streams)),
      kind_(kind) {
  if (plan_.start_recorded) start_ = driver_->make_event();
  events_.resize(tasks_.size());
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    if (plan_.recorded[i]) events_[i] = driver_->make_event();
  }
  if (kind_ == Kind::uncaptured) return;
  driver_->begin_capture(streams_[0]);
  try {
    kind_ == Kind::conditional ? play_regions() : play();
  } catch (...) {
    driver_->abandon_capture(streams_[0]);
    throw;
  }
  if (kind_ == Kind::conditional) nodes += CudaDriver::kIfNodes * regions_of(tasks_);
  graph_ = driver_->end_capture(streams_[0], nodes);
}

void StepForm::launch() const {
  if (kind_ == Kind::uncaptured) {
    play();
  } else {
    driver_->launch(graph_, streams_[0]);
  }
}

void StepForm::play_regions() const {
  const bool* region = nullptr;
  const auto enter = [&](const bool* guard) {
    if (guard == region) return;
    if (region != nullptr) driver_->end_if(streams_[0]);
    if (guard != nullptr) driver_->begin_if(guard, streams_[0]);
    region = guard;
  };
  for (const Task& task : tasks_) {
    naming(task, "capturing", [&] {
      enter(task.guard);
      for (const Command& command : task.commands) driver_->enqueue(command, streams_[0]);
    });
  }
  enter(nullptr);
}

void StepForm::play() const {
  if (plan_.start_recorded) driver_->record(start_, streams_[0]);
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    const CudaStream stream = streams_[plan_.stream[i]];
    naming(tasks_[i], kind_ == Kind::graph ? "capturing" : "launching", [&] {
      for (const std::int32_t on : plan_.waits[i]) {
        driver_->wait(stream, on == StreamPlan::kStart ? start_ : events_[on]);
      }
      for (const Command& command : tasks_[i].commands) driver_->enqueue(command, stream);
      if (plan_.recorded[i]) driver_->record(events_[i], stream);
    });
  }
  for (const std::int32_t last : plan_.joins) driver_->wait(streams_[0], events_[last]);
}

std::string StepForm::name() const {
  if (kind_ == Kind::conditional) return fmt::format("one graph, {} regions", regions_of(tasks_));
  return fmt::format("{}, {} stream{}", kind_ == Kind::graph ? "one graph" : "uncaptured",
                     plan_.streams, plan_.streams == 1 ? "" : "s");
}

int regions_of(std::span<const Task> tasks) {
  int regions = 0;
  const bool* before = nullptr;
  for (const Task& task : tasks) {
    regions += task.guard != nullptr && task.guard != before;
    before = task.guard;
  }
  return regions;
}

std::vector<std::vector<std::int32_t>> order_of(std::span<const Task> tasks) {
  std::vector<Work> touched;
  for (const Task& task : tasks) touched.push_back(task.touched);
  std::vector<std::vector<std::int32_t>> after = hazards(touched);
  if (after.empty()) return after;
  after.back().clear();  // it comes after all that no other task follows, and so after all
  std::vector<bool> followed(tasks.size(), false);
  for (const auto& earlier : after) {
    for (const std::int32_t i : earlier) followed[i] = true;
  }
  for (std::size_t i = 0; i + 1 < tasks.size(); ++i) {
    if (!followed[i]) after.back().push_back(static_cast<std::int32_t>(i));
  }
  return after;
}

int prepare(CudaDriver& driver, std::span<const Task> tasks) {
  int nodes = 0;
  for (const Task& task : tasks) {
    naming(task, "binding", [&] {
      for (const Command& command : task.commands) nodes += driver.prepare(command);
    });
  }
  return nodes;
}

}  // namespace metronome
