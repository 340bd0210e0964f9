// The shipped models: each is one short file that opens with a drawing of its graph.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "executor/metronome.h"

namespace metronome::models {

/// `full` is the benchmark's size; `small` is its launch-bound form: batch 4 and widths divided by
/// 32, but at least 16; images of 16x16 and convolutions of 8 to 64 channels. `medium` lies between
/// them: batch 16 or 32, widths of 128 to 256, images of 32x32 and 32 to 256 channels.
enum class Scale : std::uint8_t { small, medium, full };

std::string_view name_of(Scale scale);

/// Throws RunError naming the right ones.
Scale scale_of(std::string_view name);

/// The size of a model: its scale, with as many rows in a batch as that says, or as are asked for.
struct Size {
  Size(Scale scale, std::int64_t rows = 0) : scale(scale), rows(rows) {}

  Scale scale;
  std::int64_t rows;  ///< 0: the scale's
};

/// The numbers that a model's floating inputs are fed.
enum class Numbers : std::uint8_t {
  normal,   ///< standard normal
  uniform,  ///< from 0 to 1, as pixels are
};

/// A graph that is ready to compile. Its inputs are of the model's floating type, or whole numbers
/// (i64); their first dimension is the batch.
struct Model {
  std::string name;
  Graph graph;
  Values inputs;                ///< all that a step is fed
  Value answer;                 ///< what inference asks for: a prediction, an action, an image
  std::int64_t parameters = 0;  ///< elements of all parameters that are trained
  std::int64_t vocabulary = 0;  ///< whole numbers are from 0 to below it; 0: it is fed none
  Numbers numbers = Numbers::normal;
};

/// These minimise the mean squared error with Adam at 1e-3, but for the transformer (cross entropy,
/// 1e-4). f64 is for checking.
Model mlp(Size size, Element element = f32);
Model residual_tower(Size size, Element element = f32);
Model gated_routing(Size size, Element element = f32);
Model iterative_refine(Size size, Element element = f32);
Model feedback_fixed(Size size, Element element = f32);
Model feedback_adaptive(Size size, Element element = f32);
Model routed_sparse(Size size, Element element = f32);
Model convnet(Size size, Element element = f32);
Model conv_autoenc(Size size, Element element = f32);
Model gru_seq(Size size, Element element = f32);
Model lstm_seq(Size size, Element element = f32);
Model transformer(Size size, Element element = f32);

/// Learners, each with the losses and optimizers of its source. They are fed their noise and their
/// transitions, so that all who are measured take the same steps.
Model gan(Size size, Element element = f32);
Model vae(Size size, Element element = f32);
Model sac(Size size, Element element = f32);
Model ppo(Size size, Element element = f32);

struct ModelEntry {
  std::string_view name;
  Model (*make)(Size size, Element element);
};

/// All of the above, in that order.
std::span<const ModelEntry> all_models();

/// Throws RunError naming the right ones.
const ModelEntry& find_model(std::string_view name);

/// "mlp, residual_tower, ..."
std::string model_names();

// ---- for the models' own files ------------------------------------------------------------------

/// Rows of a batch: 4 at small scale, an eighth, but 16 to 32, at medium scale.
std::int64_t batch_at(Size size, std::int64_t full);
/// Rows of a batch that differ from scale to scale in another way.
std::int64_t rows_at(Size size, std::int64_t small, std::int64_t medium, std::int64_t full);

/// A width: full / 32, but at least 16, at small scale; full / 4, but 128 to 256, at medium scale.
/// Never more than at full scale, but for those 16.
std::int64_t width_at(Size size, std::int64_t full);

/// A size that differs from scale to scale in another way.
std::int64_t size_at(Size size, std::int64_t small, std::int64_t medium, std::int64_t full);

struct Fed {
  std::int64_t vocabulary = 0;
  Numbers numbers = Numbers::normal;
};

/// A finished declaration as a model.
Model finish(Graph graph, Values inputs, Value answer, Fed fed = {});

}  // namespace metronome::models
