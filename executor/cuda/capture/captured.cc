#include "executor/cuda/capture/captured.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "graph/ir/error.h"

namespace metronome::executor::capture {
namespace {

/// Runs f; an error says which task it was, and is of the type that it was.
template <class F>
void naming(const program::Task& task, std::string_view doing, F f) {
  const auto named = [&](const std::exception& error) {
    return fmt::format("{} {}: {}", doing, task.kernel.kernel, error.what());
  };
  try {
    f();
  } catch (const LostDevice& error) {
    throw LostDevice(named(error));
  } catch (const LostRank& error) {
    throw LostRank(named(error));
  } catch (const RunError& error) {
    throw RunError(named(error));
  } catch (const InternalError& error) {
    throw InternalError(named(error));
  }
}

const program::Task& first_task(std::span<const program::Task> tasks,
                                const program::RegionPart& part) {
  const program::RegionPart* inner = &part;
  while (inner->task < 0) inner = &inner->bodies.front().parts.front();
  return tasks[inner->task];
}

/// Makes ready what bodies clear; gives the nodes of it.
int prepare_clears(CudaDriver& driver, const program::RegionParts& parts) {
  int nodes = 0;
  for (const program::RegionPart& part : parts) {
    for (const program::Body& body : part.bodies) {
      for (const Command& clear : body.clears_first) nodes += driver.prepare(clear).nodes;
      for (const Command& clear : body.clears_last) nodes += driver.prepare(clear).nodes;
      nodes += prepare_clears(driver, body.parts);
    }
  }
  return nodes;
}

}  // namespace

StepForm::StepForm(CudaDriver& driver, std::span<const program::Task> tasks,
                   program::StreamPlan plan, std::vector<CudaStream> streams, LaunchKind launched,
                   int nodes)
    : driver_(&driver),
      tasks_(tasks),
      plan_(std::move(plan)),
      streams_(std::move(streams)),
      captured_(launched != LaunchKind::one_by_one),
      name_(name_of(plan_, launched)) {
  if (plan_.start_recorded) start_ = driver_->make_event();
  events_.resize(tasks_.size());
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    if (plan_.recorded[i]) events_[i] = driver_->make_event();
  }
  if (!captured_) return;
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    task_of_.insert(task_of_.end(), tasks_[i].commands.size(), static_cast<std::int32_t>(i));
  }
  capture(nodes, launched == LaunchKind::early_graph, [this] { play(); });
}

StepForm::StepForm(CudaDriver& driver, std::span<const program::Task> tasks,
                   const program::RegionParts& regions, CudaStream stream, int nodes)
    : driver_(&driver),
      tasks_(tasks),
      streams_{stream},
      captured_(true),
      skips_(true),
      name_(name_of(regions)) {
  nodes += prepare_clears(driver, regions) + CudaDriver::kCaseNodes * regions_in(regions);
  capture(nodes, false, [&] { play(regions); });
}

void StepForm::capture(int nodes, bool early, const std::function<void()>& play) {
  driver_->begin_capture(streams_[0]);
  try {
    if (early) driver_->begin_early(streams_[0]);
    play();
  } catch (...) {
    driver_->abandon_capture(streams_[0]);
    throw;
  }
  graph_ = driver_->end_capture(streams_[0], nodes);
}

void StepForm::launch() const {
  if (captured_) {
    driver_->launch(graph_, streams_[0]);
  } else {
    play();
  }
}

std::optional<std::vector<TaskRun>> StepForm::launch_by_records() const {
  if (!captured_) return std::nullopt;
  const auto records = driver_->launch_by_records(graph_, streams_[0]);
  if (!records) return std::nullopt;
  std::vector<TaskRun> runs;
  std::unordered_map<std::int32_t, std::size_t> places;  // in `runs`, of tasks
  for (const RunRecord& record : *records) {
    const std::int32_t task =
        record.command == RunRecord::kGuards ? -1 : task_of_.at(record.command);
    const auto known = task < 0 ? places.end() : places.find(task);
    if (known != places.end()) {
      TaskRun& run = runs[known->second];
      run.end = std::max(run.end, record.end);
      continue;
    }
    if (task >= 0) places[task] = runs.size();
    runs.push_back({task, record.begin, record.end});
  }
  return runs;
}

void StepForm::enqueue(const Command& command, std::int32_t task) {
  driver_->enqueue(command, streams_[0]);
  task_of_.push_back(task);
}

void StepForm::play(const program::RegionParts& parts) {
  for (const program::RegionPart& part : parts) {
    if (part.task >= 0) {
      naming(tasks_[part.task], "capturing", [&] {
        for (const Command& c : tasks_[part.task].commands) enqueue(c, part.task);
      });
      continue;
    }
    std::vector<const bool*> guards;
    for (const program::Body& body : part.bodies) {
      if (body.guard.present()) guards.push_back(body.guard_at);
    }
    naming(first_task(tasks_, part), "capturing the region of",
           [&] { driver_->begin_cases(guards, guards.size() < part.bodies.size(), streams_[0]); });
    for (const program::Body& body : part.bodies) {
      if (&body != &part.bodies.front()) driver_->next_case(streams_[0]);
      for (const Command& clear : body.clears_first) enqueue(clear, -1);
      play(body.parts);
      for (const Command& clear : body.clears_last) enqueue(clear, -1);
    }
    driver_->end_cases(streams_[0]);
  }
}

void StepForm::play() const {
  if (plan_.start_recorded) driver_->record(start_, streams_[0]);
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    const CudaStream stream = streams_[plan_.stream[i]];
    naming(tasks_[i], captured_ ? "capturing" : "launching", [&] {
      for (const std::int32_t on : plan_.waits[i]) {
        driver_->wait(stream, on == program::StreamPlan::kStart ? start_ : events_[on]);
      }
      for (const Command& command : tasks_[i].commands) driver_->enqueue(command, stream);
      if (plan_.recorded[i]) driver_->record(events_[i], stream);
    });
  }
  for (const std::int32_t last : plan_.joins) driver_->wait(streams_[0], events_[last]);
}

std::string name_of(const program::StreamPlan& plan, LaunchKind launched) {
  return fmt::format("{}, {} stream{}{}",
                     launched == LaunchKind::one_by_one ? "uncaptured" : "one graph", plan.streams,
                     plan.streams == 1 ? "" : "s",
                     launched == LaunchKind::early_graph ? ", kernels begin early" : "");
}

std::string name_of(const program::RegionParts& regions) {
  const int count = regions_in(regions), depth = depth_of(regions);
  return fmt::format("one graph, {} region{}{}", count, count == 1 ? "" : "s",
                     depth > 1 ? fmt::format(", {} deep", depth) : "");
}

std::vector<std::vector<std::int32_t>> order_of(std::span<const program::Task> tasks) {
  std::vector<program::TouchedMemory> touched;
  for (const program::Task& task : tasks) touched.push_back(task.touched);
  std::vector<std::vector<std::int32_t>> after = program::hazards(touched);
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

int longest_chain(std::span<const program::Task> tasks) {
  const std::vector<std::vector<std::int32_t>> after = order_of(tasks);
  std::vector<int> until(tasks.size());
  int longest = 0;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    for (const std::int32_t earlier : after[i]) until[i] = std::max(until[i], until[earlier]);
    until[i] += static_cast<int>(tasks[i].commands.size());
    longest = std::max(longest, until[i]);
  }
  return longest;
}

int prepare(CudaDriver& driver, std::span<program::Task> tasks) {
  std::vector<const Command*> commands;
  for (const program::Task& task : tasks) {
    for (const Command& command : task.commands) commands.push_back(&command);
  }
  driver.compile_ahead(commands);
  int nodes = 0;
  for (program::Task& task : tasks) {
    naming(task, "binding", [&] {
      for (const Command& command : task.commands) {
        const CapturedNodes captured = driver.prepare(command);
        nodes += captured.nodes;
        task.conditional = task.conditional && captured.conditional;
      }
    });
  }
  return nodes;
}

void run_one_by_one(CudaDriver& driver, std::span<const program::Task> tasks, CudaStream stream) {
  for (const program::Task& task : tasks) {
    naming(task, "running", [&] {
      for (const Command& command : task.commands) driver.enqueue(command, stream);
      driver.synchronize(stream);
    });
  }
}

}  // namespace metronome::executor::capture
