#include "executor/cuda/program/streams.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/ir/error.h"

namespace metronome::executor::program {
namespace {

/// How far each stream is known to be: the number of its items that have run.
using Clock = std::vector<std::int32_t>;

class Assigner {
 public:
  Assigner(std::span<const std::vector<std::int32_t>> after, int streams)
      : after_(after), tails_(streams, StreamPlan::kStart), lengths_(streams) {
    plan_.stream.resize(after.size());
    plan_.waits.resize(after.size());
    plan_.recorded.resize(after.size());
    places_.resize(after.size());
    depths_.resize(after.size());
    clocks_.resize(after.size());
  }

  StreamPlan assign() {
    for (std::int32_t item = 0; item < static_cast<std::int32_t>(after_.size()); ++item) add(item);
    Clock clock = clock_of(0);
    plan_.joins = find_waits(clock, std::vector<std::int32_t>(tails_.begin(), tails_.end()));
    while (plan_.streams < static_cast<int>(tails_.size()) && lengths_[plan_.streams] > 0) {
      ++plan_.streams;
    }
    return std::move(plan_);
  }

 private:
  void add(std::int32_t item) {
    const std::vector<std::int32_t>& after = after_[item];
    if (!after.empty() && (after.front() < 0 || after.back() >= item)) {
      throw InternalError(fmt::format("item {} comes after {}, which is not earlier", item,
                                      after.back() >= item ? after.back() : after.front()));
    }
    const int stream = choose(after);
    Clock clock = clock_of(stream);
    plan_.waits[item] = find_waits(clock, after);
    if (tails_[stream] == StreamPlan::kStart && stream > 0 && plan_.waits[item].empty()) {
      plan_.waits[item] = {StreamPlan::kStart};
      plan_.start_recorded = true;
    }
    plan_.stream[item] = stream;
    depths_[item] = 1 + depth(tails_[stream]);
    for (const std::int32_t before : after) {
      depths_[item] = std::max(depths_[item], 1 + depth(before));
    }
    places_[item] = ++lengths_[stream];
    clock[stream] = places_[item];
    clocks_[item] = std::move(clock);
    tails_[stream] = item;
  }

  int choose(const std::vector<std::int32_t>& after) const {
    Clock known(tails_.size());
    for (const std::int32_t before : after) merge(known, clocks_[before]);
    const auto last_of_its_stream = [&](int stream) {
      return std::binary_search(after.begin(), after.end(), tails_[stream]);
    };
    int best = 0;
    for (int stream = 1; stream < static_cast<int>(tails_.size()); ++stream) {
      const bool follows = last_of_its_stream(stream), best_follows = last_of_its_stream(best);
      const bool free = known[stream] == lengths_[stream],
                 best_free = known[best] == lengths_[best];
      const std::int32_t far = depth(tails_[stream]), best_far = depth(tails_[best]);
      if (follows != best_follows) {
        if (follows) best = stream;
      } else if (free != best_free) {
        if (free) best = stream;
      } else if (free ? far > best_far : far < best_far) {
        best = stream;
      }
    }
    return best;
  }

  /// The items of `after` that `clock` does not know to have run, nor that others of them imply;
  /// `clock` knows all of them then.
  std::vector<std::int32_t> find_waits(Clock& clock, std::vector<std::int32_t> after) {
    std::sort(after.begin(), after.end());
    std::vector<std::int32_t> waits;
    // An item comes later than those that it implies.
    for (auto it = after.rbegin(); it != after.rend() && *it != StreamPlan::kStart; ++it) {
      if (clock[plan_.stream[*it]] >= places_[*it]) continue;
      merge(clock, clocks_[*it]);
      waits.push_back(*it);
      plan_.recorded[*it] = true;
    }
    std::reverse(waits.begin(), waits.end());
    return waits;
  }

  Clock clock_of(int stream) const {
    const std::int32_t tail = tails_[stream];
    return tail == StreamPlan::kStart ? Clock(tails_.size()) : clocks_[tail];
  }
  std::int32_t depth(std::int32_t item) const {
    return item == StreamPlan::kStart ? 0 : depths_[item];
  }
  static void merge(Clock& clock, const Clock& other) {
    for (std::size_t i = 0; i < clock.size(); ++i) clock[i] = std::max(clock[i], other[i]);
  }

  std::span<const std::vector<std::int32_t>> after_;
  StreamPlan plan_;
  std::vector<std::int32_t> tails_;    // [stream] its last item
  std::vector<std::int32_t> lengths_;  // [stream] its number of items
  std::vector<std::int32_t> places_;   // [item] its number on its stream, from 1
  std::vector<std::int32_t> depths_;   // [item] when it ends, if each takes one unit of time
  std::vector<Clock> clocks_;          // [item] what is known when it has run
};

}  // namespace

StreamPlan assign_streams(std::span<const std::vector<std::int32_t>> after, int streams) {
  if (streams < 1) throw InternalError(fmt::format("work for {} streams", streams));
  return Assigner(after, streams).assign();
}

}  // namespace metronome::executor::program
