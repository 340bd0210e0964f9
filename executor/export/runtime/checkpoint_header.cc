#include "executor/export/runtime/checkpoint_header.h"

#include <cstdlib>
#include <cstring>

namespace metronome::exported {
namespace {

/// Keys of metadata without which a file is no checkpoint, and what two of them must be.
constexpr const char* kNeeded[] = {"checksum", "choices", "fingerprint",
                                   "format",   "seed",    "version"};
constexpr const char* kFormat = "metronome checkpoint";
constexpr const char* kVersion = "1";
constexpr unsigned kAll = (1U << std::size(kNeeded)) - 1;

bool is(const char* a, const char* b) { return std::strcmp(a, b) == 0; }

int digit_of(int character) {
  if (character >= '0' && character <= '9') return character - '0';
  if (character >= 'a' && character <= 'f') return character - 'a' + 10;
  return -1;
}

}  // namespace

CheckpointHeader::CheckpointHeader(File& file) : file_(file) {
  const std::uint64_t size = file.size();
  if (size < kBegin || !file.read(&bytes_, sizeof bytes_) || bytes_ > size - kBegin) return;
  data_bytes_ = size - kBegin - bytes_;
  whole_ = true;
}

bool CheckpointHeader::seek() { return file_.seek(kBegin + taken_); }

int CheckpointHeader::take() {
  if (taken_ >= bytes_) return -1;
  ++taken_;
  return file_.get();
}

void CheckpointHeader::put_back(int character) {
  if (character < 0) return;
  --taken_;
  file_.put_back(character);
}

bool CheckpointHeader::take(const char* text) {
  for (; *text != 0; ++text) {
    if (take() != static_cast<unsigned char>(*text)) return false;
  }
  return true;
}

int CheckpointHeader::take_decoded() {
  const int character = take();
  ended_ = character == '"';
  if (ended_ || character < ' ') return -1;
  if (character != '\\') return character;
  const int escaped = take();
  switch (escaped) {
    case '"':
    case '\\':
    case '/':
      return escaped;
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case 'u': {  // Metronome writes characters below 0x20 so, and all others as they are
      if (!take("00")) return -1;
      const int high = digit_of(take()), low = digit_of(take());
      return high < 0 || high > 1 || low < 0 || high + low == 0 ? -1 : 16 * high + low;
    }
    default:
      return -1;
  }
}

bool CheckpointHeader::take_string(char* to, std::size_t room) {
  if (take() != '"') return false;
  for (std::size_t i = 0; i < room; ++i) {
    const int character = take_decoded();
    to[i] = character < 0 ? '\0' : static_cast<char>(character);
    if (character < 0) return ended_;
  }
  return false;
}

bool CheckpointHeader::take_number(std::uint64_t& number) {
  char digits[24];
  for (std::size_t i = 0; i < sizeof digits; ++i) {
    const int character = take();
    const bool belongs = character >= '0' && character <= '9';
    digits[i] = belongs ? static_cast<char>(character) : '\0';
    if (belongs) continue;
    put_back(character);
    number = std::strtoull(digits, nullptr, 10);
    return i > 0;
  }
  return false;
}

bool CheckpointHeader::take_metadatum(const char* key) {
  if (is(key, "states")) {
    if (take() != '"') return false;
    metadata_.states_at = taken_;
    metadata_.states_bytes = 0;
    while (take_decoded() >= 0) ++metadata_.states_bytes;
    return ended_;
  }
  char text[64];
  if (!take_string(text, sizeof text)) return false;
  for (std::size_t i = 0; i < std::size(kNeeded); ++i) {
    if (is(key, kNeeded[i])) met_ |= 1U << i;
  }
  if (is(key, "format")) return is(text, kFormat);
  if (is(key, "version")) return is(text, kVersion);
  char* end = text;
  const std::uint64_t number = std::strtoull(text, &end, is(key, "seed") ? 10 : 16);
  if (is(key, "seed")) metadata_.seed = number;
  if (is(key, "choices")) metadata_.choices = number;
  if (is(key, "fingerprint")) metadata_.fingerprint = number;
  if (is(key, "checksum")) metadata_.checksum = number;
  return *text != 0 && *end == 0;
}

bool CheckpointHeader::take_metadata() {
  if (take() != '{') return false;
  int between = ',';
  while (between == ',') {
    char key[64];
    if (!take_string(key, sizeof key) || take() != ':' || !take_metadatum(key)) return false;
    between = take();
  }
  return between == '}';
}

bool CheckpointHeader::take_tensor(TensorHeader& tensor) {
  if (!take("{\"data_offsets\":[") || !take_number(tensor.begin) || !take(",") ||
      !take_number(tensor.end) || !take("],\"dtype\":") ||
      !take_string(tensor.dtype, sizeof tensor.dtype) || !take(",\"shape\":[")) {
    return false;
  }
  tensor.rank = 0;
  int between = take();
  if (between == ']') return take("}");
  put_back(between);
  do {
    if (tensor.rank == std::size(tensor.sizes) || !take_number(tensor.sizes[tensor.rank++])) {
      return false;
    }
    between = take();
  } while (between == ',');
  return between == ']' && take("}");
}

CheckpointHeader::Next CheckpointHeader::next(TensorHeader& tensor) {
  if (!seek()) return Next::broken;
  while (true) {
    const bool first = taken_ == 0;
    const int between = take();
    if (between == '}' && !first) return Next::end;
    if (between != (first ? '{' : ',')) return Next::broken;
    if (!take_string(tensor.name, sizeof tensor.name) || take() != ':') return Next::broken;
    if (!is(tensor.name, "__metadata__")) {
      return take_tensor(tensor) ? Next::tensor : Next::broken;
    }
    if (!take_metadata()) return Next::broken;
  }
}

bool CheckpointHeader::read_metadata(CheckpointMetadata& metadata) {
  rewind();
  met_ = 0;
  TensorHeader tensor;
  Next found = Next::tensor;
  while (found == Next::tensor) found = next(tensor);
  rewind();
  metadata = metadata_;
  return found == Next::end && met_ == kAll;
}

bool CheckpointHeader::add_states(const CheckpointMetadata& metadata, executor::Hash64& hash) {
  if (metadata.states_at == 0) return true;
  taken_ = metadata.states_at;
  if (!seek()) return false;
  hash.add(metadata.states_bytes);
  for (std::uint64_t i = 0; i < metadata.states_bytes; ++i) {
    const std::byte character{static_cast<unsigned char>(take_decoded())};
    hash.add({&character, 1});
  }
  rewind();
  return true;
}

}  // namespace metronome::exported
