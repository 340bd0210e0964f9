// Messages of protocol buffers as bytes, without a library: one of that name is inside libtorch.
// https://protobuf.dev/programming-guides/encoding is the source.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace metronome::onnx {

/// A message under construction. Fields are written in the order of the calls.
///
///   number(1, 150)    08 96 01            a tag (field, kind), then seven bits a byte, lowest
///   first text(2, "ab")     12 02 61 62         a tag, the length, the bytes
class WireMessage {
 public:
  void number(int field, std::int64_t number);
  void real(int field, float number);
  void text(int field, std::string_view bytes);
  /// As `text`. The bytes are not copied: they stay the caller's until the message is written.
  void lent_bytes(int field, std::span<const std::byte> bytes);
  void message(int field, WireMessage part);
  /// Each number by itself, as messages of proto2 have them.
  void numbers(int field, std::span<const std::int64_t> numbers);

  std::size_t bytes() const { return bytes_; }
  /// Calls `write` with the message's bytes, piece by piece.
  template <class Write>
  void write(const Write& write) const {
    for (const Piece& piece : pieces_) {
      write(std::as_bytes(std::span(piece.own)));
      if (!piece.lent.empty()) write(piece.lent);
    }
  }

 private:
  /// Bytes of its own, and then others that it does not hold.
  struct Piece {
    std::string own;
    std::span<const std::byte> lent = {};
  };

  void tag(int field, int kind);
  void varint(std::uint64_t number);
  void append(std::string_view bytes);

  std::vector<Piece> pieces_;
  std::size_t bytes_ = 0;
};

}  // namespace metronome::onnx
