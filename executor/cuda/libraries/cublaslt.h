// Matrix products by cuBLASLt.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "executor/cuda/libraries/libraries.h"
#include "ops/cuda/commands.h"
#include "ops/rules/candidate.h"

namespace metronome::executor::libraries {

/// The library on the device that is current when this is made; made once for a driver, because the
/// handle costs device memory.
///
/// Products are IEEE fp32 or fp64 (CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_64F), in TF32 only where the
/// problem says so. An algorithm may split k only if the parts are summed in a step of its own, in
/// the precision of the product: so the same algorithm gives the same bits each time.
class CublasLt final : public DeviceLibrary {
 public:
  /// Throws RunError where libcublasLt cannot be loaded or refuses the device.
  CublasLt();
  ~CublasLt() override;

  std::string version() const override;
  bool makes(const LibraryCommand& call) const override;

  /// At most 8, each with at most 32 MiB of workspace. They serve matrices that begin at multiples
  /// of 16 bytes.
  std::vector<Candidate> candidates(const LibraryCommand& call) const override;

  /// Makes the library's descriptors for a command and settles its algorithm: the one that it
  /// names, unless its pointers are aligned to less than that one asks for; then, and where it
  /// names none, the library's first for these pointers and this workspace. Pointers that are equal
  /// modulo 16 get one algorithm. Throws RunError where there is none, or where the named one
  /// cannot run here.
  void prepare(const LibraryCommand& call) override;
  void enqueue(const LibraryCommand& call, cudaStream_t stream) const override;

 private:
  struct Library;
  struct Product;

  const Product* find(const GemmCommand& command) const;

  std::unique_ptr<Library> library_;
  std::unordered_multimap<const void*, std::unique_ptr<Product>>
      products_;  // by the result's place
};

}  // namespace metronome::executor::libraries
