#include "executor/support/hash64.h"

#include <bit>
#include <cstring>

namespace metronome::executor {
namespace {

static_assert(std::endian::native == std::endian::little, "words are read as they lie in memory");

constexpr std::uint64_t kPrime1 = 0x9E3779B185EBCA87u;
constexpr std::uint64_t kPrime2 = 0xC2B2AE3D27D4EB4Fu;
constexpr std::uint64_t kPrime3 = 0x165667B19E3779F9u;
constexpr std::uint64_t kPrime4 = 0x85EBCA77C2B2AE63u;
constexpr std::uint64_t kPrime5 = 0x27D4EB2F165667C5u;

template <class Word>
std::uint64_t load(const std::byte* bytes) {
  Word word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

std::uint64_t round(std::uint64_t lane, std::uint64_t word) {
  return std::rotl(lane + word * kPrime2, 31) * kPrime1;
}

std::uint64_t merge(std::uint64_t hash, std::uint64_t lane) {
  return (hash ^ round(0, lane)) * kPrime1 + kPrime4;
}

}  // namespace

void Hash64::consume(const std::byte* stripe) {
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    lanes_[lane] = round(lanes_[lane], load<std::uint64_t>(stripe + 8 * lane));
  }
}

void Hash64::add(std::span<const std::byte> bytes) {
  const std::size_t held = length_ % kStripe;
  length_ += bytes.size();
  if (held + bytes.size() < kStripe) {
    if (!bytes.empty()) std::memcpy(rest_.data() + held, bytes.data(), bytes.size());
    return;
  }
  if (held > 0) {
    std::memcpy(rest_.data() + held, bytes.data(), kStripe - held);
    consume(rest_.data());
    bytes = bytes.subspan(kStripe - held);
  }
  for (; bytes.size() >= kStripe; bytes = bytes.subspan(kStripe)) consume(bytes.data());
  if (!bytes.empty()) std::memcpy(rest_.data(), bytes.data(), bytes.size());
}

void Hash64::add(std::uint64_t number) {
  add(std::as_bytes(std::span<const std::uint64_t, 1>(&number, 1)));
}

void Hash64::add_text(std::string_view text) {
  add(std::uint64_t{text.size()});
  add(std::as_bytes(std::span<const char>(text)));
}

std::uint64_t Hash64::value() const {
  std::uint64_t hash = kPrime5;
  if (length_ >= kStripe) {
    hash = std::rotl(lanes_[0], 1) + std::rotl(lanes_[1], 7) + std::rotl(lanes_[2], 12) +
           std::rotl(lanes_[3], 18);
    for (const std::uint64_t lane : lanes_) hash = merge(hash, lane);
  }
  hash += length_;
  const std::byte* at = rest_.data();
  const std::byte* const end = at + length_ % kStripe;
  for (; end - at >= 8; at += 8) {
    hash = std::rotl(hash ^ round(0, load<std::uint64_t>(at)), 27) * kPrime1 + kPrime4;
  }
  if (end - at >= 4) {
    hash = std::rotl(hash ^ load<std::uint32_t>(at) * kPrime1, 23) * kPrime2 + kPrime3;
    at += 4;
  }
  for (; at != end; ++at) {
    hash = std::rotl(hash ^ load<std::uint8_t>(at) * kPrime5, 11) * kPrime1;
  }
  hash = (hash ^ hash >> 33) * kPrime2;
  hash = (hash ^ hash >> 29) * kPrime3;
  return hash ^ hash >> 32;
}

}  // namespace metronome::executor
