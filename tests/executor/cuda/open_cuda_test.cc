// Why a device cannot be used: the whole sentence for each thing that can be missing.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "executor/cuda/driver/driver.h"
#include "graph/ir/error.h"
#include "tests/error_of.h"
#include "tests/executor/temporary_folder.h"

#ifndef METRONOME_NO_CUDA
#include "executor/cuda/libraries/library.h"
#include "executor/cuda/runtime/refusal.h"
#endif

namespace metronome {
namespace {

std::string refused(int index) {
  return tests::error_of<RunError>([&] { open_cuda(index); });
}

#ifdef METRONOME_NO_CUDA

TEST_CASE("a build without CUDA says so") {
  CHECK(refused(0) == "this build has no CUDA: " METRONOME_NO_CUDA);
}

#else

executor::runtime::FoundDevices two_devices() {
  return {.driver = 13000, .count = 2, .name = "NVIDIA H100 80GB HBM3", .major = 9, .minor = 0};
}

TEST_CASE("devices that can be used are not refused") {
  CHECK(executor::runtime::refusal(two_devices(), 0) == "");
  CHECK(executor::runtime::refusal(two_devices(), 1) == "");
  executor::runtime::FoundDevices oldest = two_devices();
  oldest.major = 8;
  CHECK(executor::runtime::refusal(oldest, 0) == "");
}

TEST_CASE("no driver") {
  CHECK(executor::runtime::refusal({}, 0) ==
        "this machine has no NVIDIA driver; CUDA needs driver 580 or newer");
}

TEST_CASE("a driver that is too old") {
  executor::runtime::FoundDevices found = two_devices();
  found.driver = 12080;
  CHECK(executor::runtime::refusal(found, 0) ==
        "the NVIDIA driver is too old: it serves CUDA 12.8, and CUDA 13.0 is needed; install "
        "driver 580 or newer");
}

TEST_CASE("a driver that does not work") {
  executor::runtime::FoundDevices found{.driver = 13000,
                                        .error = "unknown error (cudaErrorUnknown)"};
  CHECK(executor::runtime::refusal(found, 0) ==
        "the NVIDIA driver does not work: unknown error (cudaErrorUnknown)");
}

TEST_CASE("no device") {
  executor::runtime::FoundDevices found{.driver = 13000};
  CHECK(executor::runtime::refusal(found, 0) ==
        "this machine has no CUDA device that the driver shows");
  found.visible = "";
  CHECK(executor::runtime::refusal(found, 0) ==
        "this machine has no CUDA device that the driver shows (CUDA_VISIBLE_DEVICES=)");
}

TEST_CASE("an index out of range") {
  CHECK(executor::runtime::refusal(two_devices(), 2) ==
        "there is no CUDA device 2: the driver shows 2, numbered from 0");
  executor::runtime::FoundDevices found = two_devices();
  found.visible = "0,3";
  CHECK(executor::runtime::refusal(found, -1) ==
        "there is no CUDA device -1: the driver shows 2, numbered from 0 "
        "(CUDA_VISIBLE_DEVICES=0,3)");
}

TEST_CASE("a device that is too old") {
  const executor::runtime::FoundDevices found{
      .driver = 13000, .count = 1, .name = "Tesla T4", .major = 7, .minor = 5};
  CHECK(executor::runtime::refusal(found, 0) ==
        "CUDA device 0 (Tesla T4) has compute capability 7.5, and 8.0 or newer is needed");
}

TEST_CASE("this machine's own answer") {
  if (std::filesystem::exists("/dev/nvidiactl")) {
    CHECK(refused(1000).starts_with("there is no CUDA device 1000: the driver shows "));
  } else {
    CHECK(refused(0) == "this machine has no NVIDIA driver; CUDA needs driver 580 or newer");
  }
}

/// Sets METRONOME_CUDA for as long as it lives.
class CudaFolder {
 public:
  explicit CudaFolder(const std::string& folder) {
    if (const char* before = std::getenv(kName)) before_ = before;
    setenv(kName, folder.c_str(), 1);
  }
  ~CudaFolder() { setenv(kName, before_.c_str(), 1); }  // empty is as good as none
  CudaFolder(const CudaFolder&) = delete;
  CudaFolder& operator=(const CudaFolder&) = delete;

 private:
  static constexpr const char* kName = "METRONOME_CUDA";
  std::string before_;
};

TEST_CASE("a library that is nowhere: where it was looked for, and what brings it") {
  const std::string reason =
      "libnowhere.so.13: cannot open shared object file: No such file or directory";
  const CudaFolder unset("");
  CHECK_THROWS_WITH_AS(
      executor::libraries::Library("libnowhere.so.13", "nvidia-nowhere"),
      ("libnowhere.so.13 cannot be loaded: " + reason +
       "; it was looked for in METRONOME_CUDA (which is not set), in the wheels beside torch, in "
       "LD_LIBRARY_PATH and in the program's own library path; install the CUDA 13.0 toolkit, or "
       "nvidia-nowhere of PyPI, and "
       "name its folder with METRONOME_CUDA or LD_LIBRARY_PATH")
          .c_str(),
      RunError);
  const CudaFolder given("/opt/cuda");
  CHECK_THROWS_WITH_AS(
      executor::libraries::Library("libnowhere.so.13", "nvidia-nowhere"),
      ("libnowhere.so.13 cannot be loaded: " + reason +
       "; it was looked for in /opt/cuda/lib64 and /opt/cuda/lib (METRONOME_CUDA), in the wheels "
       "beside torch, in LD_LIBRARY_PATH and in the program's own library path; install the CUDA "
       "13.0 toolkit, or "
       "nvidia-nowhere of PyPI, and name its folder with METRONOME_CUDA or LD_LIBRARY_PATH")
          .c_str(),
      RunError);
}

TEST_CASE("a library in METRONOME_CUDA that is not one") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.file("lib"));
  const std::string file = folder.file("lib/libbroken.so.13");
  write_file(file, "not a library, but longer than a header of one would have to be at the least");
  const CudaFolder given(folder.path());
  CHECK_THROWS_WITH_AS(executor::libraries::Library("libbroken.so.13", "nvidia-broken"),
                       ("libbroken.so.13 cannot be loaded: " + file +
                        ": invalid ELF header; METRONOME_CUDA=" + folder.path().string() +
                        " names a folder whose libraries do not serve this machine")
                           .c_str(),
                       RunError);
}

TEST_CASE("a library of another version") {
  const CudaFolder unset("");
  const executor::libraries::Library library("libc.so.6", "nothing");
  CHECK(library.function<decltype(::getenv)>("getenv")("PATH") != nullptr);
  CHECK_THROWS_WITH_AS(library.function<void()>("cublasLtMatmul"),
                       "libc.so.6 has no cublasLtMatmul: it is of another version than CUDA 13.0's",
                       RunError);
}

#endif

}  // namespace
}  // namespace metronome
