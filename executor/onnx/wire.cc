#include "executor/onnx/wire.h"

#include <bit>
#include <utility>

namespace metronome::onnx {
namespace {

/// The kinds of fields.
constexpr int kVarint = 0, kBytes = 2, kFourBytes = 5;

}  // namespace

void WireMessage::append(std::string_view bytes) {
  if (pieces_.empty() || !pieces_.back().lent.empty()) pieces_.emplace_back();
  pieces_.back().own += bytes;
  bytes_ += bytes.size();
}

void WireMessage::varint(std::uint64_t number) {
  std::string bytes;
  for (; number >= 0x80; number >>= 7) bytes += static_cast<char>(0x80 | (number & 0x7f));
  bytes += static_cast<char>(number);
  append(bytes);
}

void WireMessage::tag(int field, int kind) {
  varint(static_cast<std::uint64_t>(field) << 3 | static_cast<std::uint64_t>(kind));
}

void WireMessage::number(int field, std::int64_t number) {
  tag(field, kVarint);
  varint(static_cast<std::uint64_t>(number));
}

void WireMessage::real(int field, float number) {
  tag(field, kFourBytes);
  const auto bits = std::bit_cast<std::uint32_t>(number);
  std::string bytes;
  for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(bits >> shift & 0xff);
  append(bytes);
}

void WireMessage::text(int field, std::string_view bytes) {
  tag(field, kBytes);
  varint(bytes.size());
  append(bytes);
}

void WireMessage::lent_bytes(int field, std::span<const std::byte> bytes) {
  tag(field, kBytes);
  varint(bytes.size());
  pieces_.back().lent = bytes;
  bytes_ += bytes.size();
}

void WireMessage::message(int field, WireMessage part) {
  tag(field, kBytes);
  varint(part.bytes_);
  for (const Piece& piece : part.pieces_) {
    append(piece.own);
    pieces_.back().lent = piece.lent;
    bytes_ += piece.lent.size();
  }
}

void WireMessage::numbers(int field, std::span<const std::int64_t> numbers) {
  for (const std::int64_t each : numbers) number(field, each);
}

}  // namespace metronome::onnx
