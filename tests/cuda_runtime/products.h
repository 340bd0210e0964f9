// A library of matrix products for a driver over the stub.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>
#include <vector>

#include "executor/cuda/libraries/handle.h"
#include "executor/cuda/libraries/libraries.h"
#include "graph/ir/error.h"
#include "ops/cuda/commands.h"

namespace metronome::stub {

/// The way that calls of the library below end.
enum class Does {
  work,  ///< a copy and a zeroing
  fail,  ///< a copy, then an error of the library's own
  wait,  ///< for the stream that it is called on, which no capture allows
};
inline Does library_does = Does::work;

class Products final : public executor::libraries::DeviceLibrary {
 public:
  std::string version() const override { return "a library 1.0"; }
  bool makes(const LibraryCommand& call) const override {
    return call.as<GemmCommand>() != nullptr;
  }
  std::vector<Candidate> candidates(const LibraryCommand& call) const override {
    return {{.maker = call.maker()}};
  }
  void prepare(const LibraryCommand&) override {}
  void enqueue(const LibraryCommand& call, cudaStream_t stream) const override {
    const GemmCommand& gemm = *call.as<GemmCommand>();
    executor::libraries::check(cudaMemcpyAsync(gemm.d, gemm.a, 8, cudaMemcpyDefault, stream),
                               "enqueue a product");
    if (library_does == Does::fail) throw RunError("the library cannot");
    if (library_does == Does::wait) {
      executor::libraries::check(cudaStreamSynchronize(stream), "wait in a product");
    }
    executor::libraries::check(cudaMemsetAsync(gemm.d, 0, 8, stream), "enqueue a product");
  }
};

/// For `RuntimeDriver`.
inline std::vector<std::unique_ptr<executor::libraries::DeviceLibrary>> products() {
  std::vector<std::unique_ptr<executor::libraries::DeviceLibrary>> all;
  all.push_back(std::make_unique<Products>());
  return all;
}

}  // namespace metronome::stub
