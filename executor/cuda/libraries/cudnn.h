// Convolutions by cuDNN.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "executor/cuda/libraries/libraries.h"
#include "ops/cuda/convolution_call.h"
#include "ops/rules/candidate.h"

namespace metronome::executor::libraries {

/// The library on the device that is current, or for one that is only described: that makes plans,
/// and runs none. Without the library it offers nothing, and says so once.
///
/// Engines are IEEE fp32 or fp64 (no tensor cores, no inputs of less precision), those of TF32 only
/// where the problem says so; none that may give other bits in another run, or transforms its
/// operands so that errors grow (FFT, Winograd of more than 4 x 4). An algorithm's words are the
/// engine and its knobs.
class Cudnn final : public DeviceLibrary {
 public:
  /// `device`: a description as cuDNN writes it (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION); empty:
  /// the device that is current. Loads what knows engines; what runs them is loaded with the first.
  explicit Cudnn(const std::string& device = "");
  ~Cudnn() override;

  /// "cuDNN 9.19.0", or "no cuDNN".
  std::string version() const override;
  bool makes(const LibraryCommand& call) const override;

  /// At most 8, each with at most 64 MiB of workspace, in the order of the library's heuristics.
  /// At most 32 of any engine, each with at most a GiB; their notes are logged.
  std::vector<Candidate> candidates(const LibraryCommand& call) const override;

  /// Makes the plan for a command: of the algorithm that it names, else of the first that needs no
  /// more workspace. Throws RunError where there is none, or where the named one cannot run here.
  void prepare(const LibraryCommand& call) override;
  void enqueue(const LibraryCommand& call, cudaStream_t stream) const override;

 private:
  struct Library;
  struct PreparedConvolution;

  const PreparedConvolution* find(const ConvolutionCommand& command) const;

  std::string missing_;  // why there is no library
  std::unique_ptr<Library> library_;
  std::unordered_multimap<const void*, std::unique_ptr<PreparedConvolution>>
      prepared_;  // by the result's place
  mutable bool told_ = false;
};

}  // namespace metronome::executor::libraries
