#include "executor/cuda/runtime/code_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <type_traits>

#include "executor/support/atomic_file.h"
#include "executor/support/hash64.h"
#include "executor/support/log.h"
#include "graph/ir/error.h"

namespace metronome::executor::runtime {
namespace {

/// Stands before the code.
struct Header {
  char format[8] = {'m', 't', 'c', 'u', 'b', 'i', 'n', '1'};
  std::uint64_t key = 0;
  std::uint64_t bytes = 0;
  std::uint64_t hash = 0;  ///< of the code

  bool operator==(const Header&) const = default;
};
static_assert(std::has_unique_object_representations_v<Header>);  // written as it lies

Header header_of(std::uint64_t key, std::span<const char> code) {
  Hash64 hash;
  hash.add(std::as_bytes(code));
  Header header;
  header.key = key;
  header.bytes = code.size();
  header.hash = hash.value();
  return header;
}

std::string from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

CodeCache::CodeCache(std::string folder) : folder_(std::move(folder)) {}

std::optional<std::vector<char>> CodeCache::find(std::uint64_t key) const {
  std::ifstream in(file(key), std::ios::binary);
  if (!in) return std::nullopt;
  std::vector<char> bytes{std::istreambuf_iterator<char>(in), {}};
  Header header;
  if (bytes.size() > sizeof header) {
    std::memcpy(&header, bytes.data(), sizeof header);
    bytes.erase(bytes.begin(), bytes.begin() + sizeof header);
    if (header == header_of(key, bytes)) return bytes;
  }
  logger().warn("{}: this compiled kernel is damaged; it is compiled anew", file(key));
  return std::nullopt;
}

void CodeCache::keep(std::uint64_t key, const std::vector<char>& code) {
  if (!writable_) return;
  try {
    std::error_code ignored;  // the write below says what is wrong
    std::filesystem::create_directories(folder_, ignored);
    const Header header = header_of(key, code);
    AtomicFile out(file(key));
    out.write(std::as_bytes(std::span(&header, 1)));
    out.write(std::as_bytes(std::span(code)));
    out.commit();
  } catch (const RunError& error) {
    writable_ = false;
    logger().warn("{}; kernels are compiled again the next time (METRONOME_CACHE names the folder)",
                  error.what());
  }
}

std::string CodeCache::default_folder() {
  if (const std::string cache = from_environment("METRONOME_CACHE"); !cache.empty()) {
    return cache + "/kernels";
  }
  if (const std::string cache = from_environment("XDG_CACHE_HOME"); !cache.empty()) {
    return cache + "/metronome/kernels";
  }
  if (const std::string home = from_environment("HOME"); !home.empty()) {
    return home + "/.cache/metronome/kernels";
  }
  return (std::filesystem::temp_directory_path() / "metronome-kernels").string();
}

std::string CodeCache::file(std::uint64_t key) const {
  return fmt::format("{}/{:016x}.cubin", folder_, key);
}

}  // namespace metronome::executor::runtime
