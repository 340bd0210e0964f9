// What an Executable holds. Internal to executor/.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "executor/checkpoint.h"
#include "executor/engine.h"
#include "executor/executable.h"
#include "executor/memory.h"

namespace metronome {

struct Executable::Impl {
  Graph declared{""};                       ///< the user's graph may be gone
  const GraphState* declared_by = nullptr;  ///< tells its values from another graph's; never read
  CompileOptions options;
  Report report;
  Memory memory;
  std::unique_ptr<Engine> engine;

  /// What the plan of one mode touches.
  struct Reach {
    std::vector<bool> inputs;     ///< it reads this input
    std::vector<bool> readables;  ///< it computes this readable
  };
  std::array<std::optional<Reach>, 2> reach;     ///< per mode; absent where it was not compiled
  std::vector<std::optional<Mode>> computed_by;  ///< per readable: the mode whose step left it last
  std::atomic_flag busy = ATOMIC_FLAG_INIT;

  void step(Mode mode, std::span<const Feed> feeds);

  /// Each throws RunError, naming what there is, where nothing matches.
  std::size_t input_of(const Value& value) const;
  std::size_t input_of(std::string_view name) const;
  std::size_t readable_of(const Value& value) const;
  std::size_t readable_of(std::string_view name) const;
  std::size_t scalar_of(const Value& value) const;  ///< a readable of one element
  std::size_t storage_of(std::string_view path) const;

  /// The mode that computed a readable last; throws RunError where no step has.
  Mode last_mode(std::size_t readable) const;
  at::Tensor fill(std::size_t input);
  void set_storage(std::size_t storage, const at::Tensor& tensor);
  at::Tensor storage_tensor(std::size_t storage) const;
  std::int64_t counter(std::size_t storage) const;
  std::vector<Checkpointed> checkpointed() const;
  /// All storages' blocks from the engine's memory, and back.
  void fetch_all() const;
  void push_all();

 private:
  std::size_t input_of(const Feed& feed) const {
    return feed.input ? input_of(feed.input) : input_of(feed.name);
  }
  std::string prefix() const;
  std::string input_names() const;
  const Reach& reach_of(Mode mode) const;
  void copy_feeds(std::span<const Feed> feeds);
  void require_filled(const Reach& reach) const;
};

}  // namespace metronome
