#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "executor/record/plan_record.h"
#include "graph/ir/error.h"

// nlohmann's macro writes and reads the members that it lists: one list for both ways. It is found
// by the struct's namespace.
namespace metronome {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kFormat = "metronome plan record";

/// The one of `all` with that name.
template <class T>
T enumerator_named(std::string_view name, std::span<const T> all, std::string_view what) {
  for (const T each : all) {
    if (name_of(each) == name) return each;
  }
  throw std::invalid_argument(fmt::format("it has the {} \"{}\", which there is not", what, name));
}

constexpr Mode kModesOfPlans[] = {Mode::train, Mode::evaluate, Mode::advance};
constexpr Phase kPhases[] = {Phase::forward, Phase::backward, Phase::update, Phase::executor};
constexpr TimingMethod kClocks[] = {TimingMethod::host_clock, TimingMethod::launches,
                                    TimingMethod::copies, TimingMethod::records,
                                    TimingMethod::captured};

}  // namespace

void to_json(Json& json, Mode mode) { json = name_of(mode); }
void from_json(const Json& json, Mode& mode) {
  mode = enumerator_named<Mode>(json.get<std::string>(), kModesOfPlans, "mode");
}
void to_json(Json& json, Phase phase) { json = name_of(phase); }
void from_json(const Json& json, Phase& phase) {
  phase = enumerator_named<Phase>(json.get<std::string>(), kPhases, "part of a step");
}
void to_json(Json& json, TimingMethod by) { json = name_of(by); }
void from_json(const Json& json, TimingMethod& by) {
  by = enumerator_named<TimingMethod>(json.get<std::string>(), kClocks, "clock");
}
void to_json(Json& json, const RecordedId& id) { json = Json::array({id.node, id.output}); }
void from_json(const Json& json, RecordedId& id) {
  json.at(0).get_to(id.node);
  json.at(1).get_to(id.output);
}

// Older records have fewer members.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(KernelTime, kernel, op, members, path, line, phase,
                                                microseconds, runs, bytes, flops, by)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TimedCandidate, name, microseconds)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(KernelChoice, what, chosen, how, candidates)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(OpCount, op, before, after)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PassReport, name, nodes_before, nodes_after, ops)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(HeldValue, type, bytes, path, line)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RecomputedValue, type, bytes, path, line, microseconds)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PlanReport, mode, batch, average, kernels_declared, kernels,
                                   arena_bytes, lower_bound, least_bytes, copies, relayouts, held,
                                   recomputed, forms, graph_nodes, longest_chain, kernels_in_place,
                                   unshared_bytes, passes, choices)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Report, graph, target, isa, threads, compile_seconds,
                                   arena_bytes, storage_bytes, device, device_bytes_io,
                                   device_bytes_other, mapped_bytes, parameter_count, plans,
                                   choices, timed_under_load, choices_hash, unreached)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RecordedValue, type, bytes, in, of, offset, is_view, begin, end)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RecordedNode, op, attributes, path, line, phase, inputs, guard,
                                   waits_for, values, place, kernel, threads, bytes, flops,
                                   scratch_bytes, scratch_offset)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RecordedStorage, path, type, kind, line, bytes, trainable)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RecordedAssignment, storage, value, in_place)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RecordedPlan, nodes, assignments, peak)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(RecordedTimes, steps, plan, step_microseconds,
                                                kernels, idle_microseconds, overlap_microseconds,
                                                under_load)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PlanRecord, report, storages, plans, times)

std::string to_json(const PlanRecord& record) {
  Json json = record;
  json["format"] = kFormat;
  json["version"] = PlanRecord::kVersion;
  // Paths are users' and may be no UTF-8: such bytes are shown as a replacement.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

PlanRecord plan_record_of(std::string_view text) {
  const auto refuse = [](std::string_view why) -> RunError {
    return RunError(fmt::format(
        "this is no plan record: {}; `metronome plan MODEL --json FILE` writes one", why));
  };
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) throw refuse("it is not JSON");
  if (!json.is_object() || json.value("format", Json()) != kFormat) {
    throw refuse(fmt::format("it has no \"format\": \"{}\"", kFormat));
  }
  const Json version = json.value("version", Json());
  if (version != PlanRecord::kVersion) {
    throw refuse(fmt::format("it is of version {}, and this program reads version {}",
                             version.dump(), PlanRecord::kVersion));
  }
  try {
    // Older records have no such members.
    for (Json& plan : json.at("report").at("plans")) {
      plan.emplace("least_bytes", 0);
      plan.emplace("recomputed", Json::array());
    }
    return json.get<PlanRecord>();
  } catch (const std::exception& error) {  // of JSON's library, and for a name that is none
    throw refuse(error.what());
  }
}

}  // namespace metronome
