// The public interface, whole: declare a graph, compile it, replay it.
#pragma once

#include "executor/executable.h"  // compile, Executable
#include "graph/graph.h"          // Graph
#include "graph/value.h"          // Value and its verbs
#include "ops/functions.h"        // elementwise functions, reductions, shapes
#include "ops/init.h"             // zeros, ones, uniform, normal, kaiming_uniform, ...
#include "ops/layers.h"           // linear, layer_norm, batch_norm, dropout, embedding, ...
#include "ops/losses.h"           // mse_loss, cross_entropy_loss, ...
#include "ops/optimizers.h"       // Adam, AdamW, Sgd, schedules
