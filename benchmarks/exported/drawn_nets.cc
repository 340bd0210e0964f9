// Nets that a seed draws, exported as libraries; drawn.py asks how many bytes their kernels are.
//
//   drawn_nets FOLDER SEED COUNT
//
//   FOLDER/0/train, FOLDER/0/evaluate    the libraries `net` of the first net, with its training
//                                        step and for evaluation alone
//
// It prints a line for each net.
#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <utility>

#include "executor/metronome.h"
#include "executor/metronome/export.h"

namespace metronome {
namespace {

constexpr std::int64_t kBatch = 4, kClasses = 10, kVocabulary = 100;

/// The same numbers on every machine, which distributions of the standard library do not promise.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : bits_(seed) {}
  std::int64_t from(std::int64_t least, std::int64_t most) {
    return least +
           static_cast<std::int64_t>(bits_() % static_cast<std::uint64_t>(most - least + 1));
  }
  bool coin() { return from(0, 1) == 1; }
  std::int64_t width() { return 8 * from(1, 8); }

 private:
  std::mt19937_64 bits_;
};

struct Net {
  Graph graph{"net"};
  std::string told;  ///< its layers
  Value add(Value x, std::string_view layer, const Layer& of) {
    told += fmt::format(", {}", layer);
    return x.through(of);
  }
};

Value activation(Net& net, Dice& dice, Value x) {
  struct Named {
    std::string_view name;
    Layer of;
  };
  const Named all[] = {
      {"relu", [](Value v) { return relu(v); }}, {"tanh", [](Value v) { return tanh(v); }},
      {"gelu", [](Value v) { return gelu(v); }}, {"sigmoid", [](Value v) { return sigmoid(v); }},
      {"silu", [](Value v) { return silu(v); }},
  };
  const auto& [name, of] = all[dice.from(0, std::ssize(all) - 1)];
  return net.add(x, name, of);
}

Value block(Net& net, Dice& dice, Value x) {
  const std::int64_t width = dice.width();
  x = activation(net, dice, net.add(x, fmt::format("linear {}", width), linear(width)));
  return dice.coin() ? net.add(x, "layer norm", layer_norm()) : x;
}

Value from_rows(Net& net, Dice& dice) {
  const std::int64_t width = dice.width();
  net.told = fmt::format("rows of {}", width);
  Value x = net.graph.input("x", f32, {kBatch, width});
  for (std::int64_t blocks = dice.from(2, 4); blocks > 0; --blocks) x = block(net, dice, x);
  if (!dice.coin()) return x;
  const std::int64_t experts = dice.from(2, 4);
  net.told += fmt::format(", gate of {} experts", experts);
  return x.gate([=](Value h) { return h.through(linear(experts)).through(softmax()); },
                [](int) -> Layer { return [](Value h) { return tanh(h.through(linear(16))); }; });
}

Value from_images(Net& net, Dice& dice) {
  std::int64_t side = 4 * dice.from(2, 4);
  net.told = fmt::format("images of 3 x {0} x {0}", side);
  Value x = net.graph.input("x", f32, {kBatch, 3, side, side});
  for (std::int64_t convolutions = dice.from(1, 3); convolutions > 0; --convolutions) {
    const std::int64_t channels = dice.width(), kernel = dice.coin() ? 3 : 5;
    x = net.add(x, fmt::format("conv {1}x{1} {0}", channels, kernel),
                conv2d(channels, kernel, {.padding = same}));
    if (dice.coin()) x = net.add(x, "batch norm", batch_norm());
    x = activation(net, dice, x);
    if (side % 4 == 0 && dice.coin()) {
      x = net.add(x, "max pool 2", max_pool2d(2));
      side /= 2;
    }
  }
  return x.through(flatten());
}

Value from_sequences(Net& net, Dice& dice, Value x) {
  const std::int64_t width = 8 * dice.from(2, 6), kind = dice.from(0, 3);
  if (kind == 3) {
    x = net.add(x, fmt::format("linear {}", width), linear(width));
    for (std::int64_t layers = dice.from(1, 2); layers > 0; --layers) {
      const bool smooth = dice.coin();
      const Layer act = smooth ? gelu : relu;
      const Layer of = transformer_encoder_layer(
          width, 4, {.dim_feedforward = 2 * width, .dropout = 0, .activation = act});
      x = net.add(x, smooth ? "attention layer (gelu)" : "attention layer (relu)", of);
    }
    return mean(x, {1});
  }
  const RecurrentOptions options{.batch_first = true};
  const std::string_view names[] = {"gru", "lstm", "rnn"};
  net.told += fmt::format(", {} {}", names[kind], width);
  const RecurrentLayer of = kind == 0   ? gru(width, options)
                            : kind == 1 ? lstm(width, options)
                                        : rnn(width, options);
  return of(x).hidden.reshape({kBatch, width});
}

Value from_numbers(Net& net, Dice& dice) {
  const std::int64_t length = dice.from(8, 24), width = dice.width();
  net.told = fmt::format("sequences of {} x {}", length, width);
  return from_sequences(net, dice, net.graph.input("x", f32, {kBatch, length, width}));
}

Value from_tokens(Net& net, Dice& dice) {
  const std::int64_t length = dice.from(8, 24), width = dice.width();
  net.told = fmt::format("{} tokens, embedding {}", length, width);
  const Value tokens = net.graph.input("x", i64, {kBatch, length});
  const Value x = tokens.through(embedding(kVocabulary, width)).through(positions(length));
  return from_sequences(net, dice, x);
}

void minimize(Net& net, Dice& dice, Value loss) {
  if (dice.coin()) {
    net.told += "; Adam";
    net.graph.minimize(loss, Adam{.lr = 1e-3});
    return;
  }
  const bool momentum = dice.coin();
  net.told += momentum ? "; SGD with momentum" : "; SGD";
  net.graph.minimize(loss, Sgd{.lr = 1e-3, .momentum = momentum ? 0.9 : 0});
}

/// A net that reads the `kind`th sort of input.
Net draw_net(Dice& dice, std::int64_t kind) {
  Net net;
  const auto body = kind == 0   ? from_rows
                    : kind == 1 ? from_images
                    : kind == 2 ? from_numbers
                                : from_tokens;
  const Value h = block(net, dice, body(net, dice));
  if (dice.coin()) {
    const Value labels = net.graph.input("labels", i64, {kBatch});
    const Value logits = net.add(h, "linear 10", linear(kClasses));
    net.graph.output("answer", net.add(logits, "softmax", softmax()));
    minimize(net, dice, cross_entropy_loss(logits, labels));
  } else {
    const Value target = net.graph.input("target", f32, {kBatch, 3});
    const Value y = net.add(h, "linear 3", linear(3));
    net.graph.output("answer", y);
    minimize(net, dice, mse_loss(y, target));
  }
  return net;
}

void export_net(const Graph& graph, const std::filesystem::path& folder, bool trains) {
  CompileOptions options;
  options.modes = {evaluate};
  if (trains) options.modes = {train, evaluate};
  options.evaluate_outputs = {"answer"};
  Executable step = compile(graph, cpu_replay(), for_export(options));
  export_library(step, (folder / (trains ? "train" : "evaluate")).string(), {.name = "net"});
}

}  // namespace
}  // namespace metronome

int main(int argc, char** argv) {
  if (argc != 4) {
    fmt::print(stderr, "drawn_nets: takes a folder, a seed and a count\n");
    return 2;
  }
  metronome::Dice dice(std::stoull(argv[2]));
  for (int i = 0; i < std::stoi(argv[3]); ++i) {
    const std::filesystem::path folder = std::filesystem::path(argv[1]) / std::to_string(i);
    std::filesystem::create_directories(folder);
    const metronome::Net net = metronome::draw_net(dice, i % 4);
    for (const bool trains : {false, true}) metronome::export_net(net.graph, folder, trains);
    fmt::print("{} {}\n", i, net.told);
  }
}
