// The public interface: declare a graph, compile it, replay it. Beside it stand
// executor/metronome/op.h for ops and layers of one's own, executor/metronome/device.h for what
// lies below a device's step.
#pragma once

#include "executor/compile/compile.h"     // compile
#include "executor/compile/targets.h"     // cpu_replay, cuda_graph, stepwise, eager, null
#include "executor/monitor/monitor.h"     // Monitor: numbers of a training in files
#include "executor/record/plan_record.h"  // PlanRecord
#include "executor/record/trace.h"        // Trace
#include "executor/run/batches.h"         // the order of batches
#include "executor/run/executable.h"      // Executable
#include "executor/run/feed.h"            // Feed: an input and libtorch's tensor for it
#include "graph/builder/graph.h"          // Graph
#include "graph/ir/error.h"               // GraphError, RunError
#include "graph/ir/value.h"               // Value and its verbs
#include "ops/expr/functions.h"           // elementwise functions, reductions, shapes
#include "ops/language/activations.h"     // elu, leaky_relu, mish, prelu, glu, ...
#include "ops/language/derived.h"         // remainder, logsumexp, var, norm, one_hot, tril, ...
#include "ops/language/indexing.h"        // gather, scatter_add, sort, topk, cumsum, flip, ...
#include "ops/language/init.h"            // zeros, ones, uniform, normal, kaiming_uniform, ...
#include "ops/language/layers.h"          // linear, layer_norm, batch_norm, dropout, embedding, ...
#include "ops/language/routing.h"         // RouteOptions, dropped, balance_loss
#include "ops/layers/attention.h"         // scaled_dot_product_attention
#include "ops/layers/convolution.h"       // conv1d, conv2d, conv3d, conv_transpose1d, ...
#include "ops/layers/multi_head_attention.h"  // multi_head_attention
#include "ops/layers/norms.h"                 // group_norm, instance_norm
#include "ops/layers/pooling.h"               // max_pool2d, avg_pool2d, adaptive_avg_pool2d, ...
#include "ops/layers/positions.h"             // rotary, positions, sinusoidal_positions
#include "ops/layers/recurrent.h"             // gru, lstm, rnn and their cells
#include "ops/layers/resize.h"                // flatten, pad, interpolate, upsample, pixel_shuffle
#include "ops/layers/transformer_layers.h"    // transformer_encoder_layer, ..._decoder_layer
#include "ops/losses/class_losses.h"          // nll_loss, kl_div, binary_cross_entropy, ...
#include "ops/losses/distance_losses.h"       // huber_loss, triplet_margin_loss, ...
#include "ops/losses/losses.h"                // mse_loss, cross_entropy_loss, ...
#include "ops/losses/metrics.h"               // dice_loss, metrics::iou, metrics::perplexity, ...
#include "ops/optimizers/optimizers.h"        // Adam, AdamW, Sgd, schedules
