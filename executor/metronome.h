// The public interface, whole: declare a graph, compile it, replay it.
#pragma once

#include "executor/compile/compile.h"  // compile
#include "executor/compile/targets.h"  // cpu_replay, cuda_graph, stepwise, eager, null
#include "executor/run/batches.h"      // the order of batches
#include "executor/run/executable.h"   // Executable
#include "executor/run/feed.h"         // Feed: an input and libtorch's tensor for it
#include "graph/builder/graph.h"       // Graph
#include "graph/emit/scope.h"          // apply: a node of an op of one's own
#include "graph/ir/error.h"            // GraphError, RunError
#include "graph/ir/value.h"            // Value and its verbs
#include "ops/language/functions.h"    // elementwise functions, reductions, shapes
#include "ops/language/init.h"         // zeros, ones, uniform, normal, kaiming_uniform, ...
#include "ops/language/layers.h"       // linear, layer_norm, batch_norm, dropout, embedding, ...
#include "ops/language/optimizers.h"   // Adam, AdamW, Sgd, schedules
#include "ops/language/routing.h"      // RouteOptions, dropped, balance_loss
#include "ops/losses/losses.h"         // mse_loss, cross_entropy_loss, ...
#include "ops/own/own_ops.h"           // own_ops: ops of one's own with kernels
