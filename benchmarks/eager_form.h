// The settings that a PyTorch user tries for a model, and the fastest of them: eager is measured by
// it.
#pragma once

#include <cstdint>
#include <string_view>

#include "benchmarks/batches.h"
#include "benchmarks/compare.h"

namespace metronome::benchmarks {

enum class EagerForm : std::uint8_t {
  usual,
  channels_last,   ///< images are fed so, and libtorch's convolutions keep to it
  without_onednn,  ///< libtorch's own recurrent layers on a CPU in place of oneDNN's
};

/// As JSON and tables name it.
std::string_view name_of(EagerForm form);

/// Libtorch's settings of a form for as long as it lives.
class EagerSettings {
 public:
  EagerSettings(EagerForm form, Device device);
  ~EagerSettings();
  EagerSettings(const EagerSettings&) = delete;
  EagerSettings& operator=(const EagerSettings&) = delete;

  Target target() const;

 private:
  const EagerForm form_;
  const Device device_;
  const bool onednn_before_;
};

/// Times a few steps of each that may matter to the model: convolutions, recurrent layers on a CPU.
/// Those that evaluate are of a model that answers (inference/answering.h).
EagerForm fastest_form(const models::Model& model, const Batches& batches,
                       const CompareOptions& options, Mode mode = train);

}  // namespace metronome::benchmarks
