// The harness that checks ops on a GPU, here on devices made of the host: what it does not see.
#include "tests/gpu/device_conformance.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "tests/doctest.h"
#include "tests/gpu/host_device.h"

namespace metronome {
namespace {

using Spoil = std::function<void(Command&)>;

/// Returns the first trouble of an op if `spoil` is called before each command on the second of two
/// devices, or on both.
std::string first_trouble(const std::string& op, const Spoil& spoil, bool both = true) {
  HostDevice first, second;
  second.driver.on_enqueue = [&](const Command& command, CudaStream) {
    spoil(const_cast<Command&>(command));
  };
  if (both) first.driver.on_enqueue = second.driver.on_enqueue;
  const std::vector<DevicePool*> pools = {&first.pool, &second.pool};
  const std::vector<OpCheck> checks = all_op_checks();
  const auto check = std::ranges::find(checks, op, &OpCheck::op);
  REQUIRE(check != checks.end());
  const OpConformance found = check->run(pools);
  CHECK(found.cases > 0);
  return found.troubles.empty() ? "" : found.troubles[0];
}

std::byte* at(const void* place) { return static_cast<std::byte*>(const_cast<void*>(place)); }

Spoil copies(const std::function<void(CopyCommand&)>& spoil) {
  return [spoil](Command& command) {
    if (auto* copy = std::get_if<CopyCommand>(&command)) spoil(*copy);
  };
}

/// The addresses that a group's kernel is given, operands before results.
std::vector<std::byte*> addresses(const GeneratedCommand& command) {
  std::vector<std::byte*> all(command.arguments.size() / sizeof(std::byte*));
  std::memcpy(all.data(), command.arguments.data(), all.size() * sizeof(std::byte*));
  return all;
}

TEST_CASE("kernels that are right pass") {
  for (const std::string op : {"copy", "slice", "layer_norm", "reshape", "batch"}) {
    CAPTURE(op);
    CHECK(first_trouble(op, [](Command&) {}) == "");
  }
}

TEST_CASE("a result that is not whole, and bytes written beside it or to an operand, are seen") {
  CHECK(first_trouble("copy", copies([](CopyCommand& copy) { copy.bytes = 0; })) ==
        "copy() \"f32[]\" f32: output 0: a NaN or an infinity where libtorch has none, or the "
        "reverse "
        "(kernel own)");
  CHECK(first_trouble("copy",
                      copies([](CopyCommand& copy) { at(copy.to)[copy.bytes] = std::byte{1}; })) ==
        "copy() \"f32[]\" f32: copy \"copy\" writes outside of its outputs (kernel own)");
  CHECK(first_trouble("copy", copies([](CopyCommand& copy) { *at(copy.from) ^= std::byte{1}; })) ==
        "copy() \"f32[]\" f32: x0 was written to (kernel own)");
}

TEST_CASE("other bits in another run are seen") {
  const auto lose = copies([](CopyCommand& copy) { copy.bytes = 0; });
  CHECK(first_trouble("copy", lose, /*both=*/false) ==
        "copy() \"f32[]\" f32: result 0 has other bits in run 2 (kernel own)");
}

TEST_CASE("an operand that is read after its result was written over it is seen") {
  const auto over = [](std::size_t operand) {
    return [operand](Command& command) {
      auto* map = std::get_if<GeneratedCommand>(&command);
      if (map == nullptr) return;
      const std::vector<std::byte*> all = addresses(*map);
      if (all[operand] == all[2]) all[operand][0] ^= std::byte{0xFF};
    };
  };
  CHECK(
      first_trouble("accumulate", over(0)) ==
      "accumulate() \"f32[]\" f32: accumulate \"accumulate\" has other bits in result 0, output 0 "
      "over operand 0 (kernel own)");
}

TEST_CASE("a batch that computes something else than its updates apart is seen") {
  CHECK(first_trouble("batch", [](Command& command) {
          auto* update = std::get_if<KernelCommand>(&command);
          // One apart takes five blocks at most. The rule lies first, and there beta1.
          if (update == nullptr || update->shape.blocks <= 5) return;
          double beta = 0;
          std::memcpy(&beta, update->arguments.data(), sizeof(beta));
          beta /= 2;
          std::memcpy(update->arguments.data(), &beta, sizeof(beta));
        }) == "adam: result 2 has other bits");
}

}  // namespace
}  // namespace metronome
