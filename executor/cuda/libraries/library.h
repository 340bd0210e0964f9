// Shared libraries that are looked for when they are needed, so that programs start on machines
// that lack them.
#pragma once

#include <string>

namespace metronome::executor::libraries {

/// A loaded library. It stays loaded until the program ends: CUDA's libraries keep state in the
/// driver and do not unload cleanly.
class Library {
 public:
  /// Loads `name` ("libnvrtc.so.13") from the folder METRONOME_CUDA, under lib64 or lib, else from
  /// the wheels beside the torch whose libtorch this process has loaded (nvidia/*/lib), else from
  /// where the loader looks; before all, where `loaded`, one of that name that the process has
  /// loaded already, as libtorch has. Throws RunError that says where it looked, why it failed, and
  /// what to install: `package` of PyPI.
  Library(const std::string& name, const std::string& package, bool loaded = false);

  /// `library.function<decltype(nvrtcVersion)>("nvrtcVersion")`. Throws RunError where the library
  /// has none of that name.
  template <class Function>
  Function* function(const char* symbol) const {
    return reinterpret_cast<Function*>(find(symbol));
  }

 private:
  void* find(const char* symbol) const;

  std::string name_;
  void* handle_ = nullptr;
};

}  // namespace metronome::executor::libraries
