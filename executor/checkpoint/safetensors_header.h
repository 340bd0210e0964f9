#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "executor/checkpoint/safetensors.h"

namespace metronome::executor::checkpoint {

/// Why a file cannot be loaded; who reads the file adds its name.
struct Refusal {
  std::string reason;
};

struct SafetensorsHeader {
  SafetensorsFile::Entries tensors;
  Metadata metadata;
};

/// Reads the JSON of a header that `data_bytes` bytes of data follow. Throws Refusal unless the
/// tensors cover those bytes exactly once.
SafetensorsHeader parse_safetensors_header(std::string_view json, std::uint64_t data_bytes);

}  // namespace metronome::executor::checkpoint
