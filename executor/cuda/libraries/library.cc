#include "executor/cuda/libraries/library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

#include "graph/ir/error.h"

namespace metronome::executor::libraries {
namespace {

/// Null, and the loader's words in `reason`, where it cannot be loaded.
void* load(const std::string& file, std::string& reason) {
  void* handle = dlopen(file.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (handle == nullptr) reason = dlerror();
  return handle;
}

/// Returns the folders in which NVIDIA's wheels keep their libraries:
/// site-packages/nvidia/cu13/lib, .../cudnn/lib and their like, beside the torch that was loaded.
std::vector<std::filesystem::path> folders_of_wheels() {
  void* torch = dlopen("libc10.so", RTLD_LAZY | RTLD_NOLOAD);
  if (torch == nullptr) return {};
  std::array<char, PATH_MAX> lib{};
  if (dlinfo(torch, RTLD_DI_ORIGIN, lib.data()) != 0) return {};
  const auto wheels = std::filesystem::path(lib.data()).parent_path().parent_path() / "nvidia";
  std::vector<std::filesystem::path> folders;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(wheels, ignored)) {
    folders.push_back(entry.path() / "lib");
  }
  std::ranges::sort(folders);
  return folders;
}

}  // namespace

Library::Library(const std::string& name, const std::string& package, bool loaded) : name_(name) {
  if (loaded) handle_ = dlopen(name.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (handle_ != nullptr) return;
  const char* given = std::getenv("METRONOME_CUDA");
  const std::string folder = given == nullptr ? "" : given;
  std::string reason;
  if (!folder.empty()) {
    for (const char* sub : {"lib64", "lib"}) {
      const std::string file = fmt::format("{}/{}/{}", folder, sub, name);
      std::error_code ignored;
      if (!std::filesystem::exists(file, ignored)) continue;
      handle_ = load(file, reason);
      if (handle_ != nullptr) return;
      throw RunError(
          fmt::format("{} cannot be loaded: {}; METRONOME_CUDA={} names a folder whose "
                      "libraries do not serve this machine",
                      name, reason, folder));
    }
  }
  for (const std::filesystem::path& wheel : folders_of_wheels()) {
    std::error_code ignored;
    if (!std::filesystem::exists(wheel / name, ignored)) continue;
    handle_ = load((wheel / name).string(), reason);
    if (handle_ != nullptr) return;
    throw RunError(fmt::format("{} cannot be loaded: {}; install the wheel that {} is of again",
                               name, reason, (wheel / name).string()));
  }
  handle_ = load(name, reason);
  if (handle_ != nullptr) return;
  throw RunError(fmt::format(
      "{} cannot be loaded: {}; it was looked for in {}, in the wheels beside torch, in "
      "LD_LIBRARY_PATH and in the program's own library path; install the CUDA 13.0 toolkit, or {} "
      "of PyPI, and name its folder with "
      "METRONOME_CUDA or LD_LIBRARY_PATH",
      name, reason,
      folder.empty() ? "METRONOME_CUDA (which is not set)"
                     : fmt::format("{0}/lib64 and {0}/lib (METRONOME_CUDA)", folder),
      package));
}

void* Library::find(const char* symbol) const {
  void* address = dlsym(handle_, symbol);
  if (address == nullptr) {
    throw RunError(
        fmt::format("{} has no {}: it is of another version than CUDA 13.0's", name_, symbol));
  }
  return address;
}

}  // namespace metronome::executor::libraries
