#include "benchmarks/eager_form.h"

#include <ATen/Context.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "benchmarks/contestant.h"
#include "benchmarks/floor/convolutions.h"
#include "benchmarks/inference/answering.h"
#include "benchmarks/statistics.h"
#include "graph/ir/graph.h"
#include "ops/recurrent/recurrent.h"

namespace metronome::benchmarks {
namespace {

std::vector<EagerForm> forms_of(const Graph& declared, Device device) {
  std::vector<EagerForm> forms = {EagerForm::usual};
  if (!convolutions_of(declared).empty()) forms.push_back(EagerForm::channels_last);
  const bool recurrent = std::ranges::any_of(declared.data().nodes(), [](const Node& node) {
    return node.op->as<RecurrentSequence>() != nullptr;
  });
  if (recurrent && device.kind == Device::Kind::cpu) forms.push_back(EagerForm::without_onednn);
  return forms;
}

}  // namespace

std::string_view name_of(EagerForm form) {
  switch (form) {
    case EagerForm::usual:
      return "as it comes";
    case EagerForm::channels_last:
      return "channels_last";
    case EagerForm::without_onednn:
      return "without oneDNN";
  }
  return "";
}

EagerSettings::EagerSettings(EagerForm form, Device device)
    : form_(form), device_(device), onednn_before_(at::globalContext().userEnabledMkldnn()) {
  if (form_ == EagerForm::without_onednn) at::globalContext().setUserEnabledMkldnn(false);
}

EagerSettings::~EagerSettings() { at::globalContext().setUserEnabledMkldnn(onednn_before_); }

Target EagerSettings::target() const { return eager(device_, form_ == EagerForm::channels_last); }

EagerForm fastest_form(const models::Model& model, const Batches& batches,
                       const CompareOptions& options, Mode mode) {
  constexpr int kTries = 3;
  const std::vector<EagerForm> forms = forms_of(model.graph, options.device);
  if (forms.size() == 1) return forms.front();
  EagerForm fastest = forms.front();
  double least = std::numeric_limits<double>::infinity();
  for (const EagerForm form : forms) {
    const EagerSettings settings(form, options.device);
    const bool trains = mode == train;
    Executable step = compile(
        model.graph, settings.target(),
        trains ? CompileOptions{.threads = options.threads} : answer_options(options.threads));
    Contestant contestant(step, batches, trains ? model.graph.loss() : model.answer, mode);
    const int steps = steps_per_round(contestant);
    for (int i = 0; i < kTries; ++i) {
      const double ms = milliseconds([&] { contestant.read(steps); }) / steps;
      if (ms >= least) continue;
      least = ms;
      fastest = form;
    }
  }
  return fastest;
}

}  // namespace metronome::benchmarks
