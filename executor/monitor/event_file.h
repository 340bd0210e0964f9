// TensorBoard's event files: records of protocol buffers (tensorflow/core/util/event.proto,
// tensorflow/core/lib/io/record_writer.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace metronome::executor {

/// CRC-32C (Castagnoli), as RFC 3720 defines it.
std::uint32_t crc32c(std::string_view bytes);

/// Each a whole record. `seconds` since 1970.
std::string version_record(double seconds);
/// Readers drop points of earlier files from `step` on.
std::string restart_record(double seconds, std::int64_t step);
std::string scalar_record(double seconds, std::int64_t step, std::string_view name, float value);

}  // namespace metronome::executor
