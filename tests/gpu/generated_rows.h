// Generated kernels as rows of the table. Needs libnvrtc.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "executor/cuda/runtime/nvrtc.h"
#include "ops/cuda/commands.h"
#include "tests/gpu/kernel_table.h"

namespace metronome {

inline void add_generated(KernelTable& table, const std::map<std::string, Launched>& generated,
                          const std::string& architecture) {
  constexpr std::size_t kTogether = 32;  // sources, in about a third of the time that each takes
  std::vector<std::string> sources;
  for (const auto& [source, launched] : generated) sources.push_back(source);
  for (std::size_t begin = 0; begin < sources.size(); begin += kTogether) {
    const std::span batch =
        std::span(sources).subspan(begin, std::min(kTogether, sources.size() - begin));
    auto found =
        resources_in(executor::runtime::resource_report(batch, architecture), architecture);
    for (std::size_t k = 0; k < batch.size(); ++k) {
      table.add(
          {generated.at(batch[k]), architecture, found[fmt::format("{}_{}", kGeneratedEntry, k)]});
    }
  }
}

}  // namespace metronome
