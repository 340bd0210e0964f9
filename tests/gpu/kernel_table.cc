#include "tests/gpu/kernel_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <tuple>
#include <utility>
#include <variant>

namespace metronome {
namespace {

template <class Map, class Key>
void note(Map& map, const Key& key, const std::string& name, int bound, const KernelShape& shape) {
  Launched& kept = map.try_emplace(key, Launched{name, bound}).first->second;
  kept.threads = std::max(kept.threads, shape.threads);
  kept.shared_bytes = std::max(kept.shared_bytes, shape.shared_bytes);
}

}  // namespace

CapturedNodes LaunchListener::prepare(const Command& command) {
  if (const auto* source = std::get_if<GeneratedCommand>(&command)) {
    note(generated, *source->source, source->name, bound_of(*source->source), source->shape);
  } else if (const auto* kernel = std::get_if<KernelCommand>(&command)) {
    note(compiled, kernel->kernel, kernel->name, 0, kernel->shape);
  }
  return NullDriver::prepare(command);
}

void KernelTable::add(KernelRow row) {
  if (Trouble trouble = launch_trouble(row.launched, row.taken)) {
    troubles.push_back(fmt::format("{}: {}", row.architecture, *std::move(trouble)));
  }
  rows_.push_back(std::move(row));
}

std::string KernelTable::text(std::size_t most_rows) const {
  std::vector<const KernelRow*> order;
  for (const KernelRow& row : rows_) order.push_back(&row);
  const auto weight = [](const KernelRow* row) {
    return std::tuple(-row->taken.spilled,
                      -registers_of_block(row->launched.threads, row->taken.registers),
                      row->launched.name);
  };
  std::ranges::stable_sort(order, {}, weight);
  std::string text = fmt::format("{:<6} {:>7} {:>5} {:>9} {:>7} {:>6}  kernel\n", "arch", "threads",
                                 "bound", "registers", "spilled", "shared");
  for (std::size_t i = 0; i < std::min(most_rows, order.size()); ++i) {
    const auto& [launched, architecture, taken] = *order[i];
    text += fmt::format("{:<6} {:>7} {:>5} {:>9} {:>7} {:>6}  {}\n", architecture, launched.threads,
                        launched.bound, taken.registers, taken.spilled,
                        taken.shared_bytes + launched.shared_bytes, launched.name);
  }
  return text;
}

void KernelTable::keep(const std::string& name) const {
  const char* folder = std::getenv("TEST_UNDECLARED_OUTPUTS_DIR");
  if (folder != nullptr) std::ofstream(std::string(folder) + "/" + name) << text(rows_.size());
}

int bound_of(const std::string& source) {
  const std::string stated = "static constexpr int most_threads = ";
  const std::size_t at = source.find(stated);
  return at == std::string::npos ? 0 : std::atoi(source.c_str() + at + stated.size());
}

}  // namespace metronome
