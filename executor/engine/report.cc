#include "executor/engine/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <ranges>

#include "graph/ir/error.h"

namespace metronome {
namespace {

double mebibytes(std::size_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

}  // namespace

const PlanReport& Report::plan(Mode mode, std::size_t shape) const {
  std::size_t of_mode = 0;
  for (const PlanReport& p : plans) {
    if (p.mode == mode && p.average.empty() && of_mode++ == shape) return p;
  }
  if (of_mode == 0) {
    throw RunError(fmt::format("graph \"{}\" was not compiled to {}", graph, name_of(mode)));
  }
  throw RunError(
      fmt::format("graph \"{}\" was compiled for {} batch shape{}, so there is none at {}", graph,
                  of_mode, of_mode == 1 ? "" : "s", shape));
}

std::vector<std::string> PlanReport::largest(std::size_t most) const {
  std::vector<std::string> lines;
  for (const HeldValue& value : held) {
    if (lines.size() == most) break;
    lines.push_back(fmt::format("{:<22} {:>9.3f} MiB  {}{}", value.type, mebibytes(value.bytes),
                                value.path,
                                value.line.empty() ? "" : fmt::format(" ({})", value.line)));
  }
  return lines;
}

namespace {

/// "computed again, for the memory budget: 12 kernels, 340.5 us a step", and the dearest of them.
std::string describe_recomputed(const std::vector<RecomputedValue>& all, std::size_t most = 10) {
  double microseconds = 0;
  std::vector<const RecomputedValue*> dearest;
  for (const RecomputedValue& value : all) {
    microseconds += value.microseconds;
    dearest.push_back(&value);
  }
  std::ranges::stable_sort(dearest, std::ranges::greater(), &RecomputedValue::microseconds);
  std::string text =
      fmt::format("    computed again, for the memory budget: {} kernel{}, {:.1f} us a step{}\n",
                  all.size(), all.size() == 1 ? "" : "s", microseconds,
                  all.size() > most ? fmt::format("; the {} dearest", most) : "");
  for (const RecomputedValue* value : dearest | std::views::take(most)) {
    text += fmt::format("      {:<22} {:>9.3f} MiB {:>9.1f} us  {}{}\n", value->type,
                        mebibytes(value->bytes), value->microseconds, value->path,
                        value->line.empty() ? "" : fmt::format(" ({})", value->line));
  }
  return text;
}

}  // namespace

std::string name_of(const PlanReport& plan) {
  return fmt::format("{}{}{}{}", name_of(plan.mode),
                     plan.average.empty() ? "" : fmt::format(" with \"{}\"", plan.average),
                     plan.batch.empty() ? "" : ", batch shape ", plan.batch);
}

std::string to_string(const KernelChoice& choice) {
  if (choice.chosen.empty()) return choice.what;
  return fmt::format("{} -> {} ({})", choice.what, choice.chosen, choice.how);
}

std::string to_string(const Report& report) {
  std::string text = fmt::format("graph \"{}\" on {} ({}, {} thread{}), compiled in {:.2f} s\n",
                                 report.graph, report.target, report.isa, report.threads,
                                 report.threads == 1 ? "" : "s", report.compile_seconds);
  text += fmt::format("  {} parameters, {:.3f} MiB of storage, arena {:.3f} MiB\n",
                      report.parameter_count, mebibytes(report.storage_bytes),
                      mebibytes(report.arena_bytes));
  if (!report.device.empty()) {
    text += fmt::format(
        "  on {}: {:.3f} MiB for feeds and tables, {:.3f} MiB mapped, {:.3f} MiB outside of the "
        "plan "
        "(modules, handles, graphs)\n",
        report.device, mebibytes(report.device_bytes_io), mebibytes(report.mapped_bytes),
        mebibytes(report.device_bytes_other));
  }
  for (const PlanReport& p : report.plans) {
    text += fmt::format(
        "  {}: {} kernels ({} before passes), {} copies, arena {:.3f} MiB, lower bound {:.3f} MiB, "
        "unshared {:.3f} MiB\n",
        name_of(p), p.kernels, p.kernels_declared, p.copies, mebibytes(p.arena_bytes),
        mebibytes(p.lower_bound), mebibytes(p.unshared_bytes));
    if (p.arena_bytes > p.lower_bound && p.arena_bytes == p.least_bytes) {
      text += "    no layout of its order takes less\n";
    }
    if (p.relayouts > 0) text += fmt::format("    {} copies into other layouts\n", p.relayouts);
    for (const std::string& form : p.forms) text += fmt::format("    {}\n", form);
    for (const std::string& line : p.largest()) text += fmt::format("    {}\n", line);
    if (!p.recomputed.empty()) text += describe_recomputed(p.recomputed);
  }
  for (const KernelChoice& choice : report.choices) {
    text += fmt::format("  {}\n", to_string(choice));
  }
  if (!report.choices.empty()) text += fmt::format("  choices {:016x}\n", report.choices_hash);
  for (const std::string& path : report.unreached) {
    text += fmt::format("  not trained, the loss does not reach it: {}\n", path);
  }
  return text;
}

}  // namespace metronome
