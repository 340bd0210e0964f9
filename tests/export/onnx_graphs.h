// Small graphs of two sizes, rows and length, which ONNX models are to take by name.
#pragma once

#include "executor/metronome.h"

namespace metronome::tests {

struct SizedGraph {
  const char* name;
  Value (*declare)(Graph& g, std::int64_t rows, std::int64_t length);
};

inline const SizedGraph kSizedGraphs[] = {
    {"rows_of_a_tower",
     [](Graph& g, std::int64_t rows, std::int64_t) {
       return g.input("x", f32, {rows, 8})
           .through(linear(16))
           .through(relu)
           .repeat(2, residual(linear(16)))
           .through(layer_norm());
     }},
    {"flattened_images",
     [](Graph& g, std::int64_t rows, std::int64_t) {
       return g.input("x", f32, {rows, 3, 8, 8})
           .through(conv2d(4, 3, {.padding = 1}))
           .through(max_pool2d(2))
           .through(flatten())
           .through(linear(5));
     }},
    {"images_of_any_size",
     [](Graph& g, std::int64_t rows, std::int64_t length) {
       return g.input("x", f32, {rows, 3, 2 * length, length})
           .through(conv2d(4, 3, {.padding = 1}))
           .through(batch_norm())
           .through(silu)
           .through(upsample({.scale_factor = 2}))
           .through(avg_pool2d(2))
           .through(adaptive_avg_pool2d(1))
           .through(flatten());
     }},
    {"sequences",
     [](Graph& g, std::int64_t rows, std::int64_t length) {
       const Value x = g.input("x", f32, {rows, length, 4});
       return x.through(gru(6, {.layers = 2, .batch_first = true})).through(linear(3));
     }},
    {"attention_over_any_length",
     [](Graph& g, std::int64_t rows, std::int64_t length) {
       return g.input("x", f32, {rows, length, 8})
           .through(transformer_encoder_layer(8, 2, {.dim_feedforward = 16, .dropout = 0}));
     }},
    {"causal_attention",
     [](Graph& g, std::int64_t rows, std::int64_t length) {
       const Value x = g.input("x", f32, {rows, 2, length, 8});
       return scaled_dot_product_attention(x, x, x, {.is_causal = true});
     }},
    {"tokens",
     [](Graph& g, std::int64_t rows, std::int64_t length) {
       return g.input("x", i64, {rows, length}).through(embedding(7, 4)).through(rms_norm());
     }},
    {"the_last_of_a_sequence",
     [](Graph& g, std::int64_t rows, std::int64_t length) {
       return g.input("x", f32, {rows, length, 4}).slice(1, length - 2, length - 1);
     }},
    {"groups_of_channels",
     [](Graph& g, std::int64_t rows, std::int64_t) {
       return g.input("x", f32, {rows, 4, 3, 5}).through(group_norm(2));
     }},
    {"rows_and_steps_as_one",
     [](Graph& g, std::int64_t rows, std::int64_t length) {
       const Value x = g.input("x", f32, {rows, length, 4});
       return x.reshape({rows * length, 4}).through(linear(3)).reshape({rows, length, 3});
     }},
    {"numbers_of_that_shape",
     [](Graph& g, std::int64_t rows, std::int64_t length) {
       const Value x = g.input("x", f32, {rows, length});
       return softmax(x) + expand(mean(x, 0, true), {rows, length}) + cumsum(x, 1);
     }},
};

}  // namespace metronome::tests
