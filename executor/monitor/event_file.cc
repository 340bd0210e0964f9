#include "executor/monitor/event_file.h"

#include <array>
#include <bit>
#include <cstring>

namespace metronome::executor {
namespace {

constexpr std::array<std::uint32_t, 256> crc_table() {
  constexpr std::uint32_t kReversedPolynomial = 0x82F63B78;
  std::array<std::uint32_t, 256> table = {};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? kReversedPolynomial : 0);
    table[byte] = crc;
  }
  return table;
}

/// The number's bytes, the least first.
template <class T>
void append(std::string& to, T number) {
  static_assert(std::endian::native == std::endian::little);
  char bytes[sizeof number];
  std::memcpy(bytes, &number, sizeof number);
  to.append(bytes, sizeof number);
}

// Fields of protocol buffers: a key of number and wire type, then the value.
enum WireType : std::uint64_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

void append_varint(std::string& to, std::uint64_t number) {
  for (; number >= 0x80; number >>= 7) to += static_cast<char>(number | 0x80);
  to += static_cast<char>(number);
}
void append_key(std::string& to, std::uint64_t field, WireType type) {
  append_varint(to, field << 3 | type);
}
void append_bytes(std::string& to, std::uint64_t field, std::string_view text) {
  append_key(to, field, bytes);
  append_varint(to, text.size());
  to += text;
}

/// An Event: its wall_time (1) and step (2).
std::string event(double seconds, std::int64_t step) {
  std::string event;
  append_key(event, 1, fixed64);
  append(event, seconds);
  append_key(event, 2, varint);
  append_varint(event, static_cast<std::uint64_t>(step));
  return event;
}

std::uint32_t mask_crc(std::uint32_t crc) { return std::rotr(crc, 15) + 0xA282EAD8; }

/// The length and the data, each with its checksum.
std::string record(std::string_view data) {
  std::string whole;
  append(whole, static_cast<std::uint64_t>(data.size()));
  append(whole, mask_crc(crc32c(whole)));
  whole += data;
  append(whole, mask_crc(crc32c(data)));
  return whole;
}

}  // namespace

std::uint32_t crc32c(std::string_view data) {
  static constexpr std::array<std::uint32_t, 256> kTable = crc_table();
  std::uint32_t crc = 0xFFFFFFFF;
  for (const char c : data) crc = crc >> 8 ^ kTable[(crc ^ static_cast<unsigned char>(c)) & 0xFF];
  return crc ^ 0xFFFFFFFF;
}

std::string version_record(double seconds) {
  constexpr std::uint64_t kFileVersion = 3;
  std::string whole = event(seconds, 0);
  append_bytes(whole, kFileVersion, "brain.Event:2");
  return record(whole);
}

std::string restart_record(double seconds, std::int64_t step) {
  constexpr std::uint64_t kSessionLog = 7, kStatus = 1, kStart = 1;
  std::string log, whole = event(seconds, step);
  append_key(log, kStatus, varint);
  append_varint(log, kStart);
  append_bytes(whole, kSessionLog, log);
  return record(whole);
}

std::string scalar_record(double seconds, std::int64_t step, std::string_view name, float value) {
  constexpr std::uint64_t kSummary = 5, kValue = 1, kTag = 1, kSimpleValue = 2;
  std::string point, summary, whole = event(seconds, step);
  append_bytes(point, kTag, name);
  append_key(point, kSimpleValue, fixed32);
  append(point, value);
  append_bytes(summary, kValue, point);
  append_bytes(whole, kSummary, summary);
  return record(whole);
}

}  // namespace metronome::executor
