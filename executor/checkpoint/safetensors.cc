// A file is three parts, and safetensors.h says more of them:
//
//   length of the header, 8 bytes | header, JSON | the tensors' bytes, from a multiple of 64 on
//
// `write_safetensors` sorts the tensors by the size of their elements, wide ones first, and by
// name. It lays them end to end, pads the header with spaces, and writes all through an
// `AtomicFile`. A `SafetensorsFile` opens the file once and refuses a length that cannot be; known
// signatures then say what the file is instead. It parses the header (safetensors_header.cc), and
// reads tensors from the open descriptor, as a whole or in pieces. `has_changed` compares the
// file's size and time with those of the beginning.
#include "executor/checkpoint/safetensors.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <system_error>
#include <tuple>
#include <vector>

#include "executor/checkpoint/safetensors_header.h"
#include "executor/support/atomic_file.h"
#include "graph/ir/error.h"

namespace metronome::executor::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little,
              "tensors are written as they lie in memory");

constexpr std::uint64_t kLengthBytes = 8;             // the header's length, before the header
constexpr std::uint64_t kLongestHeader = 100000000;   // bytes; the format's own limit
constexpr std::uint64_t kDataAlignment = 64;          // bytes; the format asks for 8
constexpr std::size_t kPiece = std::size_t{1} << 20;  // bytes read at once by `stream`

struct Signature {
  std::string_view bytes;
  std::string_view what;
};

// Files that people take for checkpoints. Asked only when the header's length makes no sense: a
// short header's length may look like one of these.
constexpr std::array<Signature, 6> kForeign = {{
    {"PK\x03\x04", "a ZIP archive, as torch.save writes"},
    {"\x80\x02", "a Python pickle"},
    {"\x80\x04\x95", "a Python pickle"},
    {"\x89PNG", "a PNG image"},
    {"\x89HDF", "an HDF5 file"},
    {"GGUF", "a GGUF file"},
}};

void check_length(std::uint64_t length, std::uint64_t follow, std::string_view first) {
  if (length <= follow && length <= kLongestHeader) return;
  for (const Signature& foreign : kForeign) {
    if (first.starts_with(foreign.bytes)) {
      throw Refusal{fmt::format("it is {}, not a safetensors file", foreign.what)};
    }
  }
  if (length > kLongestHeader) {
    throw Refusal{
        fmt::format("its first 8 bytes announce a header of {} bytes, but the format allows {}",
                    length, kLongestHeader)};
  }
  throw Refusal{fmt::format("its first 8 bytes announce a header of {} bytes, but {} follow",
                            length, follow)};
}

std::string system_reason(int error) { return std::generic_category().message(error); }

std::int64_t modified_ns(const struct ::stat& status) {
  return std::int64_t{status.st_mtim.tv_sec} * 1000000000 + status.st_mtim.tv_nsec;
}

std::vector<const TensorBytes*> in_file_order(std::span<const TensorBytes> tensors) {
  std::vector<const TensorBytes*> order;
  for (const TensorBytes& tensor : tensors) {
    if (tensor.bytes.size() != tensor.type.bytes()) {
      throw InternalError(fmt::format("{} bytes given for \"{}\", which is {}", tensor.bytes.size(),
                                      tensor.name, to_string(tensor.type)));
    }
    order.push_back(&tensor);
  }
  std::ranges::sort(order, [](const TensorBytes* a, const TensorBytes* b) {
    return std::forward_as_tuple(size_of(b->type.element), a->name) <
           std::forward_as_tuple(size_of(a->type.element), b->name);
  });
  return order;
}

std::string header_of(const std::vector<const TensorBytes*>& order, const Metadata& metadata) {
  nlohmann::json header = nlohmann::json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t at = 0;
  for (const TensorBytes* tensor : order) {
    if (header.contains(tensor->name)) {
      throw InternalError(fmt::format("two tensors named \"{}\" in one file", tensor->name));
    }
    const std::uint64_t end = at + tensor->bytes.size();
    header[tensor->name] = {{"dtype", dtype_of(tensor->type.element)},
                            {"shape", tensor->type.shape},
                            {"data_offsets", {at, end}}};
    at = end;
  }
  std::string text = header.dump();
  const std::uint64_t unpadded = kLengthBytes + text.size();
  text.append((kDataAlignment - unpadded % kDataAlignment) % kDataAlignment, ' ');
  return text;
}

}  // namespace

std::string_view dtype_of(Element element) {
  switch (element) {
    case f32:
      return "F32";
    case f64:
      return "F64";
    case i32:
      return "I32";
    case i64:
      return "I64";
    case bool_:
      return "BOOL";
    case bf16:
      return "BF16";
    case f16:
      return "F16";
  }
  throw InternalError("an element type out of range");
}

void refuse_file(const std::string& file, std::string_view reason) {
  throw RunError(fmt::format("{}: cannot be loaded: {}", file, reason));
}

void write_safetensors(const std::string& file, std::span<const TensorBytes> tensors,
                       const Metadata& metadata) {
  const auto order = in_file_order(tensors);
  std::string header;
  try {
    header = header_of(order, metadata);
  } catch (const nlohmann::json::type_error&) {  // what `dump` throws where text is not UTF-8
    throw RunError(fmt::format("{}: cannot be saved: a name in it is not UTF-8", file));
  }
  if (header.size() > kLongestHeader) {
    throw RunError(
        fmt::format("{}: cannot be saved: its header takes {} bytes, but the format allows {}",
                    file, header.size(), kLongestHeader));
  }
  const std::uint64_t length = header.size();
  AtomicFile out(file);
  out.write(std::as_bytes(std::span(&length, 1)));
  out.write(std::as_bytes(std::span(header)));
  for (const TensorBytes* tensor : order) out.write(tensor->bytes);
  out.commit();
}

SafetensorsFile::SafetensorsFile(std::string file) : file_(std::move(file)) {
  // Without O_NONBLOCK the opening of a pipe waits for a writer.
  descriptor_ = Descriptor(::open(file_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct ::stat status = {};
  if (!descriptor_.present() || ::fstat(descriptor_.get(), &status) != 0) {
    refuse_file(file_, system_reason(errno));
  }
  if (S_ISDIR(status.st_mode)) refuse_file(file_, system_reason(EISDIR));
  if (!S_ISREG(status.st_mode)) refuse_file(file_, "it is a device, a pipe or a socket");
  size_ = static_cast<std::uint64_t>(status.st_size);
  modified_ns_ = modified_ns(status);
  if (size_ == 0) refuse_file(file_, "it is empty");
  if (size_ < kLengthBytes) {
    refuse_file(file_, fmt::format("it has {} bytes, and a safetensors file at least {}", size_,
                                   kLengthBytes + 2));
  }
  try {
    std::array<std::byte, kLengthBytes> first;
    read_at(0, first);
    std::uint64_t length = 0;
    std::memcpy(&length, first.data(), sizeof length);
    check_length(length, size_ - kLengthBytes,
                 {reinterpret_cast<const char*>(first.data()), first.size()});
    std::string json(length, '\0');
    read_at(kLengthBytes, std::as_writable_bytes(std::span(json)));
    data_ = kLengthBytes + length;
    SafetensorsHeader header = parse_safetensors_header(json, size_ - data_);
    tensors_ = std::move(header.tensors);
    metadata_ = std::move(header.metadata);
  } catch (const Refusal& refusal) {
    refuse_file(file_, refusal.reason);
  }
}

void SafetensorsFile::read(const Entry& tensor, std::span<std::byte> into) const {
  if (into.size() != tensor.bytes()) {
    throw InternalError(
        fmt::format("{} bytes asked of a tensor of {}", into.size(), tensor.bytes()));
  }
  read_at(data_ + tensor.begin, into);
}

void SafetensorsFile::stream(const Entry& tensor,
                             const std::function<void(std::span<const std::byte>)>& consume) const {
  std::vector<std::byte> buffer(std::min<std::uint64_t>(kPiece, tensor.bytes()));
  for (std::uint64_t at = tensor.begin; at < tensor.end; at += buffer.size()) {
    const auto piece = std::span(buffer).first(std::min<std::uint64_t>(kPiece, tensor.end - at));
    read_at(data_ + at, piece);
    consume(piece);
  }
}

bool SafetensorsFile::has_changed() const {
  struct ::stat status = {};
  return ::fstat(descriptor_.get(), &status) != 0 ||
         static_cast<std::uint64_t>(status.st_size) != size_ || modified_ns(status) != modified_ns_;
}

void SafetensorsFile::read_at(std::uint64_t offset, std::span<std::byte> into) const {
  while (!into.empty()) {
    const ssize_t got =
        ::pread(descriptor_.get(), into.data(), into.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse_file(file_, system_reason(errno));
    if (got == 0) {
      refuse_file(file_, fmt::format("it had {} bytes when it was opened, but ends at byte {} now",
                                     size_, offset));
    }
    into = into.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
}

}  // namespace metronome::executor::checkpoint
