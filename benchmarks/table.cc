#include "benchmarks/table.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace metronome::benchmarks {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;

// The fields of a comparison on a GPU, beside those of every comparison.
Json fields_of(const DeviceNumbers& d, double planned_ms) {
  Json json = {
      {"eager_fed_ms", to_json(d.eager_fed_ms)},
      {"planned_fed_ms", to_json(d.planned_fed_ms)},
      {"host_us", to_json(d.host_us)},
      {"floor_ms", d.floor.ms()},
      {"over_floor", planned_ms / d.floor.ms()},
      {"gemm_ms", d.floor.gemm_ms},
      {"convolution_ms", d.floor.convolution_ms},
      {"bytes_moved", d.floor.bytes},
      {"bandwidth_gb_s", d.floor.bytes_per_ms / 1e6},
      {"graph_nodes", d.graph_nodes},
      {"forms", d.forms},
      {"eager_bytes", d.eager_bytes},
      {"planned_bytes", d.planned_bytes},
      {"planned_other_bytes", d.planned_other_bytes},
  };
  if (d.eager_deterministic_ms) {
    json["eager_deterministic_ms"] = to_json(*d.eager_deterministic_ms);
  }
  return json;
}

Json fields_of(const Comparison& c) {
  Json json = {
      {"model", c.model},
      {"scale", models::name_of(c.scale)},
      {"threads", c.threads},
      {"eager_ms", to_json(c.eager_ms)},
      {"planned_ms", to_json(c.planned_ms)},
      {"ratio", c.ratio()},
      {"ratio_per_round", to_json(c.ratios)},
      {"verdict", name_of(c.verdict)},
      {"eager_unread_ms", to_json(c.eager_unread_ms)},
      {"planned_unread_ms", to_json(c.planned_unread_ms)},
      {"compile_s", c.compile_s},
      {"kernels_declared", c.kernels_declared},
      {"kernels_planned", c.kernels_planned},
      {"arena_bytes", c.arena_bytes},
      {"lower_bound_bytes", c.lower_bound_bytes},
      {"eager_form", c.eager_form},
      {"eager_peak_bytes", c.eager_peak_bytes},
      {"library_share", c.library_share},
      {"agree", c.agreement.agree},
      {"max_difference", c.agreement.max_difference},
      {"disagreement", c.agreement.disagreement},
      {"doubtful_steps", c.agreement.doubtful},
      {"judged_steps", c.agreement.judged},
      {"precision", c.tf32 ? "tf32" : "ieee"},
  };
  if (c.on_device) json.update(fields_of(*c.on_device, c.planned_ms.median()));
  return json;
}

// A median with its spread, to three or four digits.
std::string time(const Samples& samples) {
  const double median = samples.median();
  const int decimals = median < 1 ? 4 : median < 10 ? 3 : median < 100 ? 2 : 1;
  return fmt::format("{:.{}f} +- {:.{}f}", median, decimals, samples.spread(), decimals);
}

}  // namespace

Json to_json(const Samples& samples) {
  return {{"median", samples.median()}, {"mad", samples.mad()}, {"samples", samples.values}};
}

Json to_json(const Machine& machine) {
  Json json = {{"cpu", machine.cpu},
               {"cores", machine.cores},
               {"core_round_trip_ns", machine.core_round_trip_ns},
               {"load", machine.load},
               {"isa", machine.isa},
               {"libtorch", machine.libtorch}};
  if (!machine.device.empty()) {
    json["device"] = machine.device;
    json["device_libraries"] = machine.device_libraries;
  }
  return json;
}

std::string to_string(const Machine& machine) {
  const std::string apart =
      machine.cores > 1 ? fmt::format(", {:.0f} ns there and back", machine.core_round_trip_ns)
                        : "";
  const std::string host =
      fmt::format("{}, {} cores ({}{}), load {:.2f}, libtorch {}", machine.cpu, machine.cores,
                  machine.isa, apart, machine.load, machine.libtorch);
  if (machine.device.empty()) return host;
  return fmt::format("{} ({}); {}", machine.device, machine.device_libraries, host);
}

std::string table_head(bool on_device) {
  constexpr const char* kOnDevice = " {:>9} {:>7} {:>12}";
  std::string first = fmt::format(
      "{:<16} {:>18} {:>18} {:>15} {:<6} {:>9} {:>12} {:>19} {:>9} {:>7} {:>5}", "model", "eager",
      "planned", "ratio", "", "compile", "kernels", "arena (bound)", "eager", "library", "agree");
  std::string second =
      fmt::format("{:<16} {:>18} {:>18} {:>15} {:<6} {:>9} {:>12} {:>19} {:>9} {:>7} {:>5}", "",
                  "ms/step", "ms/step", "", "", "s", "", "MiB", "peak MiB", "share", "");
  if (on_device) {
    first += fmt::format(kOnDevice, "floor", "x floor", "host");
    second += fmt::format(kOnDevice, "ms", "", "us");
  }
  return first + "\n" + second;
}

std::string table_row(const Comparison& c) {
  std::string row = fmt::format(
      "{:<16} {:>18} {:>18} {:>15} {:<6} {:>9.2f} {:>12} {:>19} {:>9.2f} {:>6.0f}% {:>5}", c.model,
      time(c.eager_ms), time(c.planned_ms),
      fmt::format("{:.2f} +- {:.2f}", c.ratio(), c.ratios.spread()), name_of(c.verdict),
      c.compile_s, fmt::format("{} -> {}", c.kernels_declared, c.kernels_planned),
      fmt::format("{:.3f} ({:.3f})", c.arena_bytes / kMiB, c.lower_bound_bytes / kMiB),
      c.eager_peak_bytes / kMiB, 100 * c.library_share, c.agreement.agree ? "yes" : "NO");
  if (c.on_device) {
    row += fmt::format(" {:>9.4f} {:>7.2f} {:>12}", c.on_device->floor.ms(),
                       c.planned_ms.median() / c.on_device->floor.ms(), time(c.on_device->host_us));
  }
  return row;
}

std::string to_json(const Machine& machine, std::span<const Comparison> comparisons) {
  Json results = Json::array();
  for (const Comparison& comparison : comparisons) results.push_back(fields_of(comparison));
  return Json{{"machine", to_json(machine)}, {"results", results}}.dump(2) + "\n";
}

}  // namespace metronome::benchmarks
