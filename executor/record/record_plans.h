// From the plans of an engine to their record.
#pragma once

#include <span>

#include "executor/engine/plan.h"
#include "executor/record/plan_record.h"

namespace metronome::executor {

/// `plans` in the order of the report's.
PlanRecord record_of(const Report& report, std::span<const Plan* const> plans);

}  // namespace metronome::executor
