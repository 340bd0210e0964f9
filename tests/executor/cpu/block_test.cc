// Memory that the executor owns: where it lies, and of which pages it is.
#include "executor/engine/block.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/doctest.h"

namespace metronome::block_test {
namespace {

using executor::Block;

/// The flags of the mapping that holds an address (VmFlags of /proc/self/smaps); empty where the
/// system tells of none.
std::string flags_at(const void* address) {
  const auto place = reinterpret_cast<std::uintptr_t>(address);
  std::ifstream maps("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::uintptr_t begin = 0, end = 0;
    char dash = 0;
    if (words >> std::hex >> begin >> dash >> end && dash == '-') {
      inside = begin <= place && place < end;
    } else if (inside && line.starts_with("VmFlags:")) {
      return line.substr(8) + " ";
    }
  }
  return "";
}

TEST_CASE("a block is zeroed and aligned, whatever its size") {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{64},
                                  std::size_t{(8 << 20) - 1}, std::size_t{(8 << 20) + 1}}) {
    CAPTURE(bytes);
    const Block block(bytes);
    CHECK(block.bytes() == bytes);
    REQUIRE(block.data() != nullptr);
    CHECK(reinterpret_cast<std::uintptr_t>(block.data()) % Block::kAlignment == 0);
    CHECK(std::all_of(block.data(), block.data() + bytes,
                      [](std::byte b) { return b == std::byte{0}; }));
  }
}

TEST_CASE("a large block asks for huge pages") {
  const Block large(16 << 20);
  const std::string flags = flags_at(large.data());
  if (flags.empty() || !std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled")) {
    MESSAGE("not shown: this system does not tell of huge pages");
    return;
  }
  CHECK(flags.find(" hg ") != std::string::npos);
  CHECK(flags_at(large.data() + (16 << 20) - 1).find(" hg ") != std::string::npos);
}

}  // namespace
}  // namespace metronome::block_test
