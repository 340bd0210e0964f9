#include <filesystem>
#include <optional>

#include "executor/onnx/model.h"
#include "executor/support/atomic_file.h"

namespace metronome::onnx {
namespace {

using executor::AtomicFile;

void write_data(const OnnxModel& model, AtomicFile& file) {
  for (const OnnxTensor& tensor : model.initializers) {
    if (!lies_beside(tensor)) continue;
    file.write(tensor.bytes);
    file.write(std::vector<std::byte>(data_bytes(tensor) - tensor.bytes.size()));
  }
}

}  // namespace

void write_model(const OnnxModel& model, const std::string& file, std::size_t most) {
  WireMessage message = encode(model, "");
  std::optional<AtomicFile> data;
  AtomicFile out(file);
  if (message.bytes() > most) {
    const std::string beside = file + ".data";
    message = encode(model, std::filesystem::path(beside).filename().string());
    write_data(model, data.emplace(beside));
  }
  message.write([&](std::span<const std::byte> bytes) { out.write(bytes); });
  if (data) data->commit();
  out.commit();
}

}  // namespace metronome::onnx
