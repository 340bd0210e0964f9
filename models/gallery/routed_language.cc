// A language model of bytes: a recurrent layer that hands its states on, then experts, of which
// each byte meets two. Sampling is a graph of one row and one byte, over the same parameters.
//
//   bytes [16, 32] -- embedding 32 -- gru 64 --+-- route: 2 of 4 experts ---(+)-- linear 256
//   state h [1, 16, 64] -----------^    |      '----------------------------'        |
//                      '--- fed to the next step                                   logits
//   cross_entropy_loss(logits, next) + 0.01 balance_loss ---- Adam
//
// Shazeer et al., "Outrageously large neural networks", 2017.
#include "models/gallery/routed_language.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/softmax.h>
#include <fmt/format.h>

#include <cmath>
#include <random>

#include "executor/metronome.h"
#include "graph/ir/error.h"

namespace metronome::gallery {
namespace {

constexpr std::int64_t kBatchRows = 16, kLength = 32, kWidth = 64, kBytes = 256;

struct RoutedModel {
  RoutedModel(std::int64_t rows, std::int64_t length, bool trains) {
    bytes = g.input("bytes", i64, {rows, length});
    const Value state = g.state("h", {f32, {1, rows, kWidth}});
    const Recurrent read =
        gru(kWidth, {.batch_first = true})(bytes.through(embedding(kBytes, 32)), {.hidden = state});
    g.feed(state, read.hidden);
    const auto router = [](Value h) { return h.through(linear(4)).through(softmax()); };
    const auto expert = [](int) -> Layer {
      return [](Value h) { return h.through(linear(128)).through(gelu).through(linear(kWidth)); };
    };
    const Value routed = read.output.route(router, expert, {.top = 2});
    const Value logits = (read.output + routed).through(layer_norm()).through(linear(kBytes));
    g.output("logits", logits);
    if (!trains) return;
    next = g.input("next", i64, {rows, length});
    const Value loss = cross_entropy_loss(logits, next);
    g.output("bits", loss / std::log(2.0));
    g.output("perplexity", metrics::perplexity(logits, next));
    g.output("dropped", dropped(routed).cast(f32) / static_cast<double>(2 * rows * length));
    g.output("update ratio", update_ratio(g.parameter("embedding/weight")));
    g.minimize(loss + 0.01 * balance_loss(routed), Adam{.lr = 3e-3, .clip_norm = 1.0});
  }
  Graph g{"routed_language"};
  Value bytes, next;
};

/// Row r of step `step` goes on where it ended in the step before, as if its part were a ring.
at::Tensor rows_of(const std::string& text, std::int64_t step, std::int64_t shift) {
  at::Tensor rows = at::empty({kBatchRows, kLength}, at::TensorOptions(at::kLong));
  const auto part = static_cast<std::int64_t>(text.size()) / kBatchRows;
  auto numbers = rows.accessor<std::int64_t, 2>();
  for (std::int64_t r = 0; r < kBatchRows; ++r) {
    for (std::int64_t t = 0; t < kLength; ++t) {
      const std::int64_t place = (step * kLength + t + shift) % part;
      numbers[r][t] = static_cast<unsigned char>(text[static_cast<std::size_t>(r * part + place)]);
    }
  }
  return rows;
}

}  // namespace

RoutedLanguageResult learn_and_write(const RoutedLanguageOptions& options,
                                     const std::function<void(const std::string& line)>& say) {
  if (static_cast<std::int64_t>(options.text.size()) < kBatchRows * (kLength + 1)) {
    throw RunError(fmt::format("a text of {} bytes, but {} or more are needed", options.text.size(),
                               kBatchRows * (kLength + 1)));
  }
  const RoutedModel model(kBatchRows, kLength, true), one(1, 1, false);
  Executable step =
      compile({{&model.g, {train}}, {&one.g, {advance}}}, cpu_replay(), {.seed = options.seed});

  constexpr std::int64_t kTold = 10;
  RoutedLanguageResult result;
  for (std::int64_t i = 0; i < options.steps; ++i) {
    step.run(
        {{model.bytes, rows_of(options.text, i, 0)}, {model.next, rows_of(options.text, i, 1)}});
    const double bits = step.read("bits").item<double>();
    if (i < kTold) result.first_bits += bits / kTold;
    if (i >= options.steps - kTold) result.last_bits += bits / kTold;
    if ((i + 1) % 100 != 0) continue;
    say(fmt::format("step {:>4}  {:.2f} bits a byte, perplexity {:.1f}, update ratio {:.1e}", i + 1,
                    bits, step.read("perplexity").item<double>(),
                    step.read("update ratio").item<double>()));
  }
  result.dropped = step.read("dropped").item<double>();

  step.reset("h[1, 1, 64]");
  std::mt19937_64 random(options.seed);
  std::string written = options.begin;
  const std::size_t whole = options.begin.size() + static_cast<std::size_t>(options.sampled);
  for (std::size_t i = 0; written.size() < whole; ++i) {
    step.input(one.bytes).fill_(static_cast<unsigned char>(written[i]));
    step.evaluate({}, {.states = States::advance});
    if (i + 1 < written.size()) continue;
    const at::Tensor shares = at::softmax(step.read("logits").reshape({kBytes}).div(0.7), 0);
    double point = static_cast<double>(random() >> 11) * 0x1p-53;
    std::int64_t byte = 0;
    while (byte + 1 < kBytes && point >= shares[byte].item<double>()) {
      point -= shares[byte++].item<double>();
    }
    written += static_cast<char>(byte);
  }
  result.sample = written.substr(options.begin.size());
  return result;
}

}  // namespace metronome::gallery
