// Each group of layers, functions and losses of docs/reference.md in a small graph.
#pragma once

#include "executor/metronome.h"

namespace metronome::tests {

struct LayerGraph {
  const char* name;
  Value (*declare)(Graph& g, Element element);
};

inline Value rows(Graph& g, Element e) { return g.input("x", e, {4, 8}); }
inline Value sequence(Graph& g, Element e) { return g.input("x", e, {2, 5, 8}); }
inline Value line_of(Graph& g, Element e) { return g.input("x", e, {2, 4, 9}); }
inline Value image(Graph& g, Element e) { return g.input("x", e, {2, 4, 6, 5}); }
inline Value volume(Graph& g, Element e) { return g.input("x", e, {1, 2, 4, 5, 3}); }
inline Value more_rows(Graph& g, Element e) { return g.input("z", e, {4, 8}); }
inline Value labels(Graph& g) { return g.input("labels", i64, {4}); }
inline Value targets(Graph& g, Element e) { return sigmoid(g.input("target", e, {4, 8})); }

#define METRONOME_LAYER(name, expression) \
  {name, [](Graph& g, [[maybe_unused]] Element e) -> Value { return expression; }}

inline const LayerGraph kLayerGraphs[] = {
    METRONOME_LAYER("linear", rows(g, e).through(linear(3))),
    METRONOME_LAYER("linear_of_sequences", sequence(g, e).through(linear(3, {.bias = false}))),
    METRONOME_LAYER("layer_norm", sequence(g, e).through(layer_norm())),
    METRONOME_LAYER("rms_norm", sequence(g, e).through(rms_norm())),
    METRONOME_LAYER("batch_norm", image(g, e).through(batch_norm())),
    METRONOME_LAYER("batch_norm_of_rows", rows(g, e).through(batch_norm())),
    METRONOME_LAYER("group_norm", image(g, e).through(group_norm(2))),
    METRONOME_LAYER("instance_norm", image(g, e).through(instance_norm())),
    METRONOME_LAYER("dropout", rows(g, e).through(dropout(0.5))),
    METRONOME_LAYER("embedding",
                    labels(g).through(embedding(5, 3, {.element = e, .padding_index = 1}))),
    METRONOME_LAYER("gru", sequence(g, e).through(gru(6, {.layers = 2, .bidirectional = true}))),
    METRONOME_LAYER("lstm", sequence(g, e).through(lstm(6, {.bias = false, .batch_first = true}))),
    METRONOME_LAYER("rnn", sequence(g, e).through(rnn(6, {}, relu))),
    METRONOME_LAYER("gru_state",
                    gru(3)(sequence(g, e), {.hidden = g.input("h", e, {1, 5, 3})}).hidden),
    METRONOME_LAYER("lstm_cells", lstm(3, {.layers = 2})(sequence(g, e)).cell),
    METRONOME_LAYER("lengths", gru(3)(sequence(g, e), {.lengths = g.input("n", i64, {5})}).output),
    METRONOME_LAYER("gru_cell", gru_cell(3)(rows(g, e), g.input("h", e, {4, 3}))),
    METRONOME_LAYER("rnn_cell", rnn_cell(3)(rows(g, e))),
    METRONOME_LAYER("multi_head_attention", sequence(g, e).through(multi_head_attention(8, 2))),
    METRONOME_LAYER("masked_attention", sequence(g, e).through(multi_head_attention(
                                            8, 4,
                                            {.attn_mask = g.input("mask", e, {5, 5}) > 0.0,
                                             .is_causal = true,
                                             .kv_heads = 2,
                                             .rotary = RotaryOptions{}}))),
    METRONOME_LAYER("encoder", sequence(g, e).through(transformer_encoder_layer(
                                   8, 2, {.dim_feedforward = 16, .norm_first = true}))),
    METRONOME_LAYER("decoder", sequence(g, e).through(transformer_decoder_layer(
                                   8, 2, {.stream = g.input("memory", e, {2, 3, 8})},
                                   {.dim_feedforward = 16, .is_causal = true}))),
    METRONOME_LAYER("positions", sequence(g, e).through(positions(7))),
    METRONOME_LAYER("sinusoidal_positions", sequence(g, e).through(sinusoidal_positions())),
    METRONOME_LAYER("rotary", rotary(sequence(g, e))),
    METRONOME_LAYER("conv1d", line_of(g, e).through(conv1d(3, 3, {.stride = 2, .padding = 1}))),
    METRONOME_LAYER("conv2d", image(g, e).through(conv2d(6, {3, 2}, {.dilation = 2, .groups = 2}))),
    METRONOME_LAYER("conv2d_same", image(g, e).through(conv2d(3, 4, {.padding = same}))),
    METRONOME_LAYER("conv3d", volume(g, e).through(conv3d(3, 2))),
    METRONOME_LAYER("conv_transpose1d",
                    line_of(g, e).through(conv_transpose1d(3, 3, {.stride = 2}))),
    METRONOME_LAYER("conv_transpose2d",
                    image(g, e).through(conv_transpose2d(
                        6, 3, {.stride = 2, .padding = 1, .output_padding = 1, .groups = 2}))),
    METRONOME_LAYER("conv_transpose3d", volume(g, e).through(conv_transpose3d(3, 2))),
    METRONOME_LAYER("max_pool1d", line_of(g, e).through(max_pool1d(3, {.padding = 1}))),
    METRONOME_LAYER("max_pool2d", image(g, e).through(max_pool2d(2, {.ceil_mode = true}))),
    METRONOME_LAYER("max_pool3d", volume(g, e).through(max_pool3d(2))),
    METRONOME_LAYER("avg_pool1d", line_of(g, e).through(avg_pool1d(2))),
    METRONOME_LAYER("avg_pool2d",
                    image(g, e).through(avg_pool2d(3, {.padding = 1, .count_include_pad = false}))),
    METRONOME_LAYER("avg_pool3d", volume(g, e).through(avg_pool3d(2, {.ceil_mode = true}))),
    METRONOME_LAYER("adaptive_avg_pool2d", image(g, e).through(adaptive_avg_pool2d({4, 2}))),
    METRONOME_LAYER("flatten", image(g, e).through(flatten())),
    METRONOME_LAYER("pad", image(g, e).through(pad({1, -1, 2, 0}, 0.5))),
    METRONOME_LAYER("upsample", image(g, e).through(upsample({.scale_factor = 2}))),
    METRONOME_LAYER("bilinear", image(g, e).through(
                                    upsample({.size = {9, 7}, .mode = Interpolation::bilinear}))),
    METRONOME_LAYER(
        "bilinear_corners",
        image(g, e).through(
            upsample({.scale_factor = 2, .mode = Interpolation::bilinear, .align_corners = true}))),
    METRONOME_LAYER("bilinear_doubled", image(g, e).through(upsample(
                                            {.scale_factor = 2, .mode = Interpolation::bilinear}))),
    METRONOME_LAYER("pixel_shuffle", image(g, e).through(pixel_shuffle(2))),
    METRONOME_LAYER("activations", concat({selu(rows(g, e)), relu6(more_rows(g, e))}, 0)),
    METRONOME_LAYER("mish", rows(g, e).through(mish).through(hardswish).through(gelu_tanh)),
    METRONOME_LAYER("elu", rows(g, e).through(elu(0.5)).through(leaky_relu()).through(prelu())),
    METRONOME_LAYER("glu", rows(g, e).through(glu()).through(swiglu()).through(tanhshrink)),
    METRONOME_LAYER("logsigmoid", rows(g, e).through(logsigmoid).through(hardsigmoid)),
    METRONOME_LAYER("softsign", rows(g, e).through(softsign).through(log_softmax())),
    METRONOME_LAYER("remainder", remainder(rows(g, e), 0.7) + floor_divide(more_rows(g, e), 0.3)),
    METRONOME_LAYER("logsumexp", logsumexp(rows(g, e), 1) + var(more_rows(g, e), 1)),
    METRONOME_LAYER("norm", norm(rows(g, e), 2, 1) + stddev(more_rows(g, e), 1)),
    METRONOME_LAYER("normalize", normalize(rows(g, e))),
    METRONOME_LAYER("one_hot", one_hot(labels(g), 3)),
    METRONOME_LAYER("tril", tril(rows(g, e)) - triu(more_rows(g, e), 1)),
    METRONOME_LAYER("flip", flip(rows(g, e), {1}) + roll(more_rows(g, e), 3, 1)),
    METRONOME_LAYER("index_select", index_select(rows(g, e), 1, labels(g))),
    METRONOME_LAYER("masked_fill", masked_fill(rows(g, e), more_rows(g, e) > 0.5, -1.0)),
    METRONOME_LAYER("mse_loss", mse_loss(rows(g, e), targets(g, e))),
    METRONOME_LAYER("cross_entropy_loss", cross_entropy_loss(rows(g, e), labels(g))),
    METRONOME_LAYER("bce_with_logits_loss", bce_with_logits_loss(rows(g, e), targets(g, e))),
    METRONOME_LAYER("huber_loss", huber_loss(rows(g, e), targets(g, e))),
    METRONOME_LAYER("nll_loss", nll_loss(log_softmax(rows(g, e)), labels(g))),
    METRONOME_LAYER("kl_div", kl_div(log_softmax(rows(g, e)), softmax(targets(g, e)))),
    METRONOME_LAYER("dice_loss", dice_loss(sigmoid(rows(g, e)).reshape({2, 2, 8}),
                                           targets(g, e).reshape({2, 2, 8}))),
    METRONOME_LAYER("accuracy", accuracy(rows(g, e), labels(g))),
    METRONOME_LAYER(
        "log_prob",
        distributions::Normal(rows(g, e), exp(more_rows(g, e))).log_prob(targets(g, e))),
};

#undef METRONOME_LAYER

}  // namespace metronome::tests
