// A device made of the host, for runs of single kernels.
#pragma once

#include "tests/cuda/host_driver.h"
#include "tests/gpu/device_memory.h"

namespace metronome {

/// Its threads run in one order.
struct HostDevice {
  explicit HostDevice(const RunOrder& order = {})
      : driver(HostSettings{.order = order}), pool(driver, driver.make_stream()) {}

  HostDriver driver;
  DevicePool pool;
};

}  // namespace metronome
