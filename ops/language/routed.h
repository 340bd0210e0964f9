// The function behind `Value::route`.
#pragma once

#include "graph/ir/line.h"
#include "graph/ir/value.h"
#include "ops/language/routing.h"

namespace metronome {

/// x.route(router, experts, options).
Value route_rows(const Value& x, const Layer& router, const Layers& experts,
                 const RouteOptions& options, Line line);

}  // namespace metronome
