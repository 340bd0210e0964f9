// The meetings of the stub's ranks, and what becomes of their numbers. Internal to the stub.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "executor/cuda/libraries/nccl_interface.h"

namespace metronome::nccl_stub {

using namespace executor::libraries::nccl;  // NOLINT: the interface that the stub stands for

inline constexpr Result kSystemError = 2, kInvalidArgument = 4, kInvalidUsage = 5, kRemoteError = 6;

/// One rank's part in a collective.
struct Offer {
  std::string call;
  std::vector<std::byte> bytes;
};

/// Ranks that have one id.
struct Clique {
  explicit Clique(int size) : offers(static_cast<std::size_t>(size)) {}

  std::mutex mutex;
  std::condition_variable change;
  std::set<int> there;
  std::vector<Offer> offers;  // [rank]
  int waiting = 0;
  std::int64_t meetings = 0;
  bool broken = false;

  int size() const { return static_cast<int>(offers.size()); }
  void close() {
    const std::scoped_lock lock(mutex);
    broken = true;
    change.notify_all();
  }
  /// False where a rank is gone.
  bool await_all() {
    std::unique_lock lock(mutex);
    if (broken) return false;
    const std::int64_t meeting = meetings;
    if (++waiting == size()) {
      waiting = 0;
      ++meetings;
      change.notify_all();
      return true;
    }
    change.wait(lock, [&] { return meetings != meeting || broken; });
    return meetings != meeting;
  }
};

struct Communicator {
  std::shared_ptr<Clique> clique;
  int rank;
  int number;
  bool pending = true;  // the next question is told that something is in progress
};

inline const char* name_of_type(DataType type) {
  return type == kFloat32   ? "float32"
         : type == kFloat64 ? "float64"
         : type == kInt64   ? "int64"
                            : "int8";
}
inline std::size_t size_of_type(DataType type) {
  return type == kBytes ? 1 : type == kFloat32 ? 4 : 8;
}
inline const char* name_of_reduction(Reduction op) {
  return op == kSum ? "sum" : op == kMax ? "max" : op == kMin ? "min" : "mean";
}

template <class T>
void join(Reduction op, const std::vector<Offer>& offers, std::size_t begin, std::size_t count,
          void* to) {
  for (std::size_t i = 0; i < count; ++i) {
    T joined{};
    for (std::size_t r = 0; r < offers.size(); ++r) {
      T x;
      std::memcpy(&x, offers[r].bytes.data() + (begin + i) * sizeof(T), sizeof(T));
      joined = r == 0       ? x
               : op == kMax ? std::max(joined, x)
               : op == kMin ? std::min(joined, x)
                            : static_cast<T>(joined + x);
    }
    if (op == kMean) joined /= static_cast<T>(offers.size());
    static_cast<T*>(to)[i] = joined;
  }
}

inline void join(DataType type, Reduction op, const std::vector<Offer>& offers, std::size_t begin,
                 std::size_t count, void* to) {
  if (type == kFloat32) return join<float>(op, offers, begin, count, to);
  if (type == kFloat64) return join<double>(op, offers, begin, count, to);
  join<std::int64_t>(op, offers, begin, count, to);
}

}  // namespace metronome::nccl_stub
