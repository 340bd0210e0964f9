// Every kernel is compiled for devices: what a rule can launch is there to be launched. That they
// compile at all, for sm_80, sm_90 and as PTX, the build shows.
#include <doctest/doctest.h>

#include <string>
#include <typeindex>
#include <vector>

#include "executor/cuda/program/io_device.h"
#include "executor/cuda/program/io_kernels.h"
#include "ops/cuda/device_kernels.h"
#include "ops/cuda/kernel_lists.h"
#include "tests/skipped.h"

using metronome::DeviceKernels;
using namespace metronome::cuda;

namespace {

template <class... Kernels>
std::vector<std::string> missing(const DeviceKernels& table, KernelList<Kernels...>) {
  std::vector<std::string> names;
  ((table.find(typeid(Kernels)) ? void() : names.push_back(typeid(Kernels).name())), ...);
  return names;
}

template <class... Kernels>
constexpr std::size_t size(KernelList<Kernels...>) {
  return sizeof...(Kernels);
}

}  // namespace

#ifdef METRONOME_NO_CUDA

TEST_CASE("without a toolkit there are no kernels for devices") {
  CHECK(metronome::device_kernels().size() == 0);
  CHECK(missing(metronome::device_kernels(), AllKernels{}).size() == size(AllKernels{}));
}

METRONOME_SKIPPED("every kernel is compiled for devices", METRONOME_NO_CUDA)

#else

TEST_CASE("every kernel is compiled for devices") {
  CHECK(missing(metronome::device_kernels(), AllKernels{}) == std::vector<std::string>{});
  CHECK(metronome::device_kernels().size() == size(AllKernels{}));
}

TEST_CASE("so are the executor's own") {
  DeviceKernels table = metronome::device_kernels();
  add_kernels_io(table);
  CHECK(missing(table, IoKernels{}) == std::vector<std::string>{});
  CHECK(table.size() == size(AllKernels{}) + size(IoKernels{}));
}

#endif
