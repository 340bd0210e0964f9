// A rank with a device, over the stubs of the CUDA runtime and of NCCL.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "distributed/collectives/communicator.h"
#include "executor/cuda/libraries/nccl.h"
#include "executor/cuda/runtime/runtime_driver.h"
#include "ops/cuda/collective_call.h"
#include "tests/cuda_runtime/products.h"
#include "tests/cuda_runtime/stub.h"
#include "tests/doctest.h"
#include "tests/nccl/stub.h"

namespace metronome::nccl_stub {

/// For `RuntimeDriver`.
inline std::vector<std::unique_ptr<executor::libraries::DeviceLibrary>> opened() {
  auto all = stub::products();
  all.push_back(std::make_unique<executor::libraries::Nccl>(functions));
  return all;
}

inline void check_nothing_lives() {
  CHECK(stub::living() == stub::Living{});
  CHECK(living() == 0);
}

/// A rank with a device, and 3 x 6 elements at either of two places.
class Rank {
 public:
  explicit Rank(std::shared_ptr<distributed::Communicator> own)
      : own_(std::move(own)),
        driver_(own_->rank(), opened),
        stream_(driver_.make_stream()),
        from_(driver_.device_memory(kBytes)),
        to_(driver_.device_memory(kBytes)) {}

  CollectiveCommand command(const CollectiveProblem& problem) {
    fill(problem.element);
    std::memset(to_, 0, kBytes);
    return {.problem = problem, .ranks = own_, .from = from_, .to = to_};
  }
  void run(const CollectiveCommand& command) {
    const CapturedNodes captured = driver_.prepare(command);
    CHECK(captured.nodes == 1);
    CHECK_FALSE(captured.conditional);
    driver_.enqueue(command, stream_);
    driver_.synchronize(stream_);
  }
  executor::runtime::RuntimeDriver& driver() { return driver_; }
  CudaStream stream() const { return stream_; }

 private:
  static constexpr std::size_t kBytes = 3 * 6 * 8;

  /// Numbers whose sums are rounded, other ones of each rank.
  void fill(Element element) {
    for (int i = 0; i < 6; ++i) {
      const double x = (i * 7 + own_->rank() * 11) % 13 / 3.0 - 2;
      const auto write = [&](auto number) {
        std::memcpy(from_ + static_cast<std::size_t>(i) * sizeof number, &number, sizeof number);
      };
      if (element == f64) {
        write(x);
      } else if (element == i64) {
        write(static_cast<std::int64_t>(x * 100));
      } else if (element == f32 || element == i32) {
        write(static_cast<float>(x));
      } else {
        write(x > 0);
      }
    }
  }

  std::shared_ptr<distributed::Communicator> own_;
  executor::runtime::RuntimeDriver driver_;
  CudaStream stream_;
  std::byte *from_, *to_;
};

}  // namespace metronome::nccl_stub
