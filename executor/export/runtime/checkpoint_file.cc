#include "executor/export/runtime/checkpoint_file.h"

#include <unistd.h>

namespace metronome::exported {

const char* dtype_of(Element element) {
  constexpr const char* kNames[] = {"F32", "F64", "I32", "I64", "BOOL", "BF16", "F16"};
  return kNames[static_cast<std::size_t>(element)];
}

bool File::seek(std::uint64_t at) { return fseeko(file_, static_cast<off_t>(at), SEEK_SET) == 0; }

std::uint64_t File::size() {
  if (fseeko(file_, 0, SEEK_END) != 0) return 0;
  const off_t end = ftello(file_);
  return end < 0 || !seek(0) ? 0 : static_cast<std::uint64_t>(end);
}

bool File::finish() {
  const bool whole = std::fflush(file_) == 0 && fsync(fileno(file_)) == 0;
  const bool closed = std::fclose(file_) == 0;
  file_ = nullptr;
  return whole && closed;
}

bool is_model(StorageRow::Kind kind) {
  return kind == StorageRow::Kind::parameter || kind == StorageRow::Kind::buffer;
}

}  // namespace metronome::exported
