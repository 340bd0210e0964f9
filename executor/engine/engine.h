// The interface that runs the steps of an executable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "executor/engine/memory.h"
#include "executor/engine/profile.h"
#include "executor/engine/report.h"
#include "executor/support/tensor.h"
#include "graph/ir/error.h"

namespace metronome::executor {

struct Plan;

/// One plan of an engine, by its place among those that it was made of.
struct PlanId {
  std::int32_t index = -1;  ///< below zero: absent

  bool present() const { return index >= 0; }
  bool operator==(const PlanId&) const = default;
};

/// A step that broke off as one of its kernels failed: which, and why.
struct BrokenStep : std::runtime_error {
  BrokenStep(std::string_view kernel, std::string_view why, bool changed)
      : std::runtime_error(std::string(kernel).append(": ").append(why)), changed(changed) {}
  BrokenStep(std::string_view kernel, const std::exception& failure, bool changed)
      : BrokenStep(kernel, failure.what(), changed) {
    lost_rank = dynamic_cast<const LostRank*>(&failure) != nullptr;
  }

  bool changed;            ///< it had begun to change storages
  bool lost_rank = false;  ///< no further step can run
};

/// An engine whose memory is a device's keeps storages there; their blocks in `Memory` are then
/// copies, which `fetch` and `push` bring up to date in either direction.
class Engine {
 public:
  virtual ~Engine() = default;
  /// One step of a plan. On the host a kernel that fails ends in BrokenStep; such a step does not
  /// count among `steps`.
  virtual void run(PlanId plan) = 0;
  /// The plan that it runs; null where libtorch runs a step in place of one.
  virtual const Plan* plan(PlanId plan) const {
    static_cast<void>(plan);
    return nullptr;
  }
  /// Whether it has kernels to time.
  virtual bool profiles() const { return false; }
  /// Runs a step kernel by kernel, and times each, in the order in which they ran.
  virtual std::vector<KernelRun> profile(PlanId plan);
  /// Readable `index` of the plan's graph as the plan's last step left it: in the engine's own
  /// memory, which the tensor keeps, or in memory of the tensor's own.
  virtual Tensor readable(PlanId plan, std::size_t index) const = 0;
  /// A readable of one element, as a number; allocates nothing if the engine can.
  virtual double scalar(PlanId plan, std::size_t index) const = 0;
  /// A readable of one element as step `step`, one of this plan, left it; steps count from 0 over
  /// all plans. Throws RunError if it is not kept.
  virtual double scalar(PlanId plan, std::size_t index, std::int64_t step) const;
  /// Steps begun, of all plans.
  virtual std::int64_t steps() const = 0;

  /// The feeds of a step begin. Those of a call before, which ended in an error, are forgotten.
  virtual void begin_feeds() {}
  /// Host memory that the next step takes input `index` of `Memory` from: its block, if the input
  /// was handed out. Waits until it may be written.
  virtual std::byte* feed(std::size_t index) = 0;
  /// The first `bytes` of that memory hold what is fed: the engine may begin to carry them away.
  /// Called behind each part of a large feed and at its end, with more bytes each time.
  virtual void advance_feed(std::size_t index, std::size_t bytes) {
    static_cast<void>(index);
    static_cast<void>(bytes);
  }
  /// In place of `feed`: takes all of the input from memory of the caller's, if the engine can
  /// without a copy by the host. False where it cannot: then nothing was done.
  virtual bool feed_from(std::size_t index, const std::byte* from) {
    static_cast<void>(index);
    static_cast<void>(from);
    return false;
  }
  /// The device whose tensors `feed_from_device` and `read_into` take; the host's, if there is
  /// none.
  virtual Device device() const { return {}; }
  /// Whether bytes that are said to lie on `device` do.
  virtual bool reaches(const std::byte* memory) const {
    static_cast<void>(memory);
    return false;
  }
  /// In place of `feed`: takes all of the input from contiguous elements on `device`. Work of
  /// `from.stream` comes before that, or after it, as it was asked for before this call, or after.
  virtual void feed_from_device(std::size_t index, const Tensor& from);
  /// Writes readable `index`, as `readable` gives it, to contiguous elements on `device`. Work of
  /// `to.stream` comes before that, or after it, as it was asked for before this call, or after.
  virtual void read_into(PlanId plan, std::size_t index, const Tensor& to) const;
  /// The place of the owner of what the last `feed_from` of this input was given, if that is read
  /// still: a later step's feed takes its place. Null: it was read.
  virtual std::shared_ptr<void>* keeper(std::size_t index) {
    static_cast<void>(index);
    return nullptr;
  }
  /// A block for input `index` of `Memory`, about to be handed out, that steps can take it from
  /// without a copy by the host; absent if the block in `Memory` is as good.
  virtual Block block_to_fill(std::size_t index) {
    static_cast<void>(index);
    return {};
  }
  /// Brings the block of input `index` of `Memory` up to date with what was fed last.
  virtual void fetch_input(std::size_t index) const { static_cast<void>(index); }
  /// Brings a storage's block up to date with the last step.
  virtual void fetch(std::size_t storage) const { static_cast<void>(storage); }
  /// Takes over a storage's block, which has been written to.
  virtual void push(std::size_t storage) { static_cast<void>(storage); }

  /// Waits for every step that was begun.
  virtual void settle() const {}
  /// Whether a fault has come to the host; waits for nothing and allocates nothing.
  virtual bool has_fault() const { return false; }
  /// `Executable::fault`, of what has come to the host.
  virtual std::optional<std::string> fault() const { return std::nullopt; }
};

/// A tensor that shows bytes of a block and keeps the block's bytes, alone, as long as it lives.
Tensor tensor_in(const BlockPlace& place, const Type& type);
/// The number at `data`.
double number_at(const void* data, Element element);

}  // namespace metronome::executor
