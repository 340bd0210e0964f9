// Layers of ATen, whose weights are operands: convolutions, norms, embeddings, attention,
// recurrent sequences.
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "executor/import/aten/call.h"
#include "executor/import/aten/spatial.h"
#include "graph/ir/structural.h"
#include "ops/batch_norm/batch_norm.h"
#include "ops/language/derived.h"
#include "ops/language/layers.h"
#include "ops/layer_norm/layer_norm.h"
#include "ops/layers/attention.h"
#include "ops/layers/convolution.h"
#include "ops/layers/norms.h"
#include "ops/recurrent/recurrent.h"
#include "ops/rms_norm/rms_norm.h"

namespace metronome::pt2 {
namespace {

/// `of` is conv1d, conv2d and conv3d, or their transposed forms.
template <class Arguments, class... Of>
Values convolve_by(const Call& c, const Arguments& how, const Of&... of) {
  const Value x = c.value("input"), weight = c.value("weight"), bias = c.value_or_absent("bias");
  return by_dimensions(x.rank() - 2, [&] {
    return bias.present() ? of(x, weight, bias, how, c.line()) : of(x, weight, how, c.line());
  }...);
}

Values convolve_transposed(const Call& c) {
  const std::int64_t d = c.value("input").rank() - 2;
  const ConvTransposeArguments how{
      .stride = spatial(c.integers("stride", {{1}}), d),
      .padding = spatial(c.integers("padding", {{0}}), d),
      .output_padding = spatial(c.integers("output_padding", {{0}}), d),
      .dilation = spatial(c.integers("dilation", {{1}}), d),
      .groups = c.integer("groups", 1)};
  return convolve_by(
      c, how, [](auto... of) { return conv_transpose1d(of...); },
      [](auto... of) { return conv_transpose2d(of...); },
      [](auto... of) { return conv_transpose3d(of...); });
}

Values convolve(const Call& c) {
  if (c.flag("transposed", false)) return convolve_transposed(c);
  const std::int64_t d = c.value("input").rank() - 2;
  ConvArguments how{.stride = spatial(c.integers("stride", {{1}}), d),
                    .dilation = spatial(c.integers("dilation", {{1}}), d),
                    .groups = c.integer("groups", 1)};
  const std::string padding = c.text("padding", "");
  if (padding == "same") {
    how.padding = same;
  } else if (padding != "valid") {
    how.padding = ConvPadding(spatial(c.integers("padding", {{0}}), d));
  }
  return convolve_by(
      c, how, [](auto... of) { return conv1d(of...); }, [](auto... of) { return conv2d(of...); },
      [](auto... of) { return conv3d(of...); });
}

// ---- norms -------------------------------------------------------------------------------------

Value number_like(const Call& c, double number, Type type) {
  return make_constant(c.emitter(), number, std::move(type), c.line());
}

/// [C] as [1, C, 1, ...], for channels of x.
Value by_channel(const Value& v, const Value& x, Line line) {
  if (x.rank() < 2) throw Unsupported{"its operand has no channels"};
  Shape shape(static_cast<std::size_t>(x.rank()), 1);
  shape[1] = v.type().numel();
  return v.reshape(shape, line);
}

Value scaled(const Call& c, Value y, const Value& x) {
  if (const Value w = c.value_or_absent("weight"); w.present()) y = y * by_channel(w, x, c.line());
  if (const Value b = c.value_or_absent("bias"); b.present()) y = y + by_channel(b, x, c.line());
  return y;
}

Value in_shape(const Value& x, const Shape& shape, Line line) {
  return x.shape() == shape ? x : x.reshape(shape, line);
}

/// x with the last axes, which are normalized together, as one.
Value normalized_rows(const Call& c, const Value& x) {
  const std::vector<std::int64_t> over = c.integers("normalized_shape");
  if (over.empty() || over.size() > x.shape().size())
    throw Unsupported{"its shape is none of its input"};
  Shape rows(x.shape().begin(), x.shape().end() - static_cast<std::ptrdiff_t>(over.size()));
  std::int64_t width = 1;
  for (const std::int64_t size : over) width *= size;
  rows.push_back(width);
  return in_shape(x, rows, c.line());
}

/// A weight or a bias of normalized rows; a number for all where there is none.
Value of_rows(const Call& c, const Value& rows, const char* name, double otherwise) {
  const Shape shape = {rows.size(-1)};
  if (!c.has(name)) return number_like(c, otherwise, {rows.element(), shape});
  return in_shape(c.value(name), shape, c.line());
}

Values layer_normed(const Call& c) {
  const Value x = c.value("input");
  const Value rows = normalized_rows(c, x);
  const Value y =
      apply(LayerNorm{.eps = c.number("eps", 1e-5)},
            {rows, of_rows(c, rows, "weight", 1), of_rows(c, rows, "bias", 0)}, c.line());
  return {in_shape(y, x.shape(), c.line())};
}

/// With the batch's statistics, which move the running ones; else with those as they are.
Values batch_normed(const Call& c, bool training, bool functional) {
  const Value x = c.value("input");
  const double eps = c.number("eps", 1e-5), momentum = c.number("momentum", 0.1);
  const Type type{x.element(), {x.size(1)}};
  const bool keeps = c.has("running_mean");
  const auto operand = [&](const char* name, double otherwise) {
    return c.has(name) ? c.value(name) : number_like(c, otherwise, type);
  };
  const Value mean = operand("running_mean", 0), variance = operand("running_var", 1);
  if (!training) {
    if (!keeps) throw Unsupported{"it has neither a batch's statistics nor running ones"};
    const Value factor = rsqrt(variance + Operand(eps, c.line()), c.line());
    const Value y = (x - by_channel(mean, x, c.line())) * by_channel(factor, x, c.line());
    return {scaled(c, y, x)};
  }
  const Values made =
      apply_all(BatchNorm{.eps = eps, .momentum = momentum},
                {x, operand("weight", 1), operand("bias", 0), mean, variance}, 5, c.line());
  if (functional) return {made[0], made[3], made[4], made[1], made[2]};
  if (keeps) {
    c.assign_buffer("running_mean", made[1]);
    c.assign_buffer("running_var", made[2]);
  }
  return {made[0]};
}

Values rms_normed(const Call& c) {
  const Value x = c.value("input");
  const Value rows = normalized_rows(c, x);
  const double eps =
      c.optional_number("eps").value_or(x.element() == f64 ? std::numeric_limits<double>::epsilon()
                                                           : std::numeric_limits<float>::epsilon());
  const Value y =
      apply_all(RmsNorm{.eps = eps}, {rows, of_rows(c, rows, "weight", 1)}, 2, c.line())[0];
  return {in_shape(y, x.shape(), c.line())};
}

Values group_normed(const Call& c) {
  const Value x = c.value("input");
  const Layer plain =
      group_norm(c.integer("num_groups"), {.eps = c.number("eps", 1e-5), .affine = false});
  return {scaled(c, plain(x, c.line()), x)};
}

Values instance_normed(const Call& c) {
  if (!c.flag("use_input_stats", true) || c.has("running_mean")) {
    throw Unsupported{"it has running statistics"};
  }
  const Value x = c.value("input");
  const Layer plain = instance_norm({.eps = c.number("eps", 1e-5)});
  return {scaled(c, plain(x, c.line()), x)};
}

/// The direction of v, with the length g: norms over all axes but one.
Values weight_normed(const Call& c) {
  const Value v = c.value("v");
  const std::int64_t kept = c.axis("dim", v, 0);
  std::vector<std::int64_t> axes;
  for (std::int64_t d = 0; d < v.rank(); ++d) {
    if (d != kept) axes.push_back(d);
  }
  return {v * (c.value("g") / norm(v, 2, Axes(axes), true, c.line()))};
}

// ---- the others --------------------------------------------------------------------------------

Values embedded(const Call& c) {
  if (c.flag("scale_grad_by_freq", false)) throw Unsupported{"it scales gradients by frequency"};
  Value table = c.value("weight");
  const std::int64_t rows = table.size(0), padding = c.integer("padding_idx", -1);
  if (padding >= rows) throw Unsupported{"its padding is no row of its table"};
  if (padding >= 0) {  // read as any other row, but never trained
    std::vector<double> is_padding(static_cast<std::size_t>(rows), 0);
    is_padding[static_cast<std::size_t>(padding)] = 1;
    const Value mask = make_constant(c.emitter(), is_padding, {bool_, {rows, 1}}, c.line());
    table = where(mask, stop_gradient(table, c.line()), table, c.line());
  }
  return {embedding_lookup(table, c.value("indices"), c.line())};
}

Values attended(const Call& c) {
  if (c.number("dropout_p", 0) != 0) throw Unsupported{"it has a dropout"};
  Value query = c.value("query");
  const double width = static_cast<double>(query.size(-1));
  if (const auto scale = c.optional_number("scale")) {
    query = query * Operand(*scale * std::sqrt(width), c.line());
  }
  return {scaled_dot_product_attention(query, c.value("key"), c.value("value"),
                                       {.attn_mask = c.value_or_absent("attn_mask"),
                                        .is_causal = c.flag("is_causal", false),
                                        .enable_gqa = c.flag("enable_gqa", false)},
                                       c.line())};
}

Values sequence(const Call& c, RecurrentKind kind, bool relu) {
  const std::int64_t layers = c.integer("num_layers");
  if (layers > 1 && c.flag("train") && c.number("dropout") != 0) {
    throw Unsupported{"it has a dropout between layers"};
  }
  const bool lstm = kind == RecurrentKind::lstm;
  const RecurrentSequence op{.kind = kind,
                             .layers = layers,
                             .bias = c.flag("has_biases"),
                             .bidirectional = c.flag("bidirectional"),
                             .batch_first = c.flag("batch_first"),
                             .relu = relu,
                             .first_hidden = true,
                             .first_cell = lstm};
  Values in = {c.value("input")};
  const Values starts = lstm ? c.values("hx") : Values{c.value("hx")};
  const Values weights = c.values("params");
  in.insert(in.end(), starts.begin(), starts.end());
  in.insert(in.end(), weights.begin(), weights.end());
  return apply(make_op(op), in, c.line(), op.results());
}

}  // namespace

void add_layers(Table& t) {
  t["aten.convolution"] = convolve;
  for (const std::int64_t d : {1, 2, 3}) {
    t[fmt::format("aten.conv{}d", d)] = with_single_images("input", d, convolve);
    t[fmt::format("aten.conv_transpose{}d", d)] =
        with_single_images("input", d, convolve_transposed);
  }
  t["aten.layer_norm"] = layer_normed;
  t["aten.rms_norm"] = rms_normed;
  t["aten.batch_norm"] = [](const Call& c) { return batch_normed(c, c.flag("training"), false); };
  t["aten._native_batch_norm_legit_functional"] = [](const Call& c) {
    return batch_normed(c, c.flag("training"), true);
  };
  t["aten._weight_norm"] = weight_normed;
  t["aten.group_norm"] = group_normed;
  t["aten.instance_norm"] = instance_normed;
  t["aten.embedding"] = embedded;
  t["aten.scaled_dot_product_attention"] = attended;
  t["aten.gru"] = [](const Call& c) { return sequence(c, RecurrentKind::gru, false); };
  t["aten.lstm"] = [](const Call& c) { return sequence(c, RecurrentKind::lstm, false); };
  t["aten.rnn_tanh"] = [](const Call& c) { return sequence(c, RecurrentKind::rnn, false); };
  t["aten.rnn_relu"] = [](const Call& c) { return sequence(c, RecurrentKind::rnn, true); };
}

}  // namespace metronome::pt2
