#include "graph/ir/error.h"
#include "models/models.h"
#include "tests/doctest.h"

namespace metronome::parameters_test {
namespace {

using models::Scale;

struct Row {
  std::string_view model;
  std::int64_t small;
  std::int64_t medium;
  std::int64_t full;
};

constexpr Row kModelRows[] = {
    {"mlp", 17'184, 331'008, 16'802'816},
    {"residual_tower", 15'552, 927'232, 14'718'976},
    {"gated_routing", 3'112, 168'200, 2'638'856},
    {"iterative_refine", 3'296, 198'400, 3'152'896},
    {"feedback_fixed", 880, 50'048, 790'016},
    {"feedback_adaptive", 897, 50'177, 790'529},
    {"routed_sparse", 3'112, 168'200, 2'638'856},
    {"convnet", 62'864, 1'005'668, 3'965'028},
    {"conv_autoenc", 87'315, 1'381'443, 5'515'395},
    {"gru_seq", 1'904, 115'584, 1'314'048},
    {"lstm_seq", 4'624, 280'704, 3'809'536},
    {"transformer", 21'824, 1'064'448, 21'071'872},
    {"gan", 1'097, 53'317, 637'185},
    {"vae", 1'624, 58'348, 652'824},
    {"sac", 1'625, 15'689, 210'185},
    {"ppo", 755, 9'155, 9'155},
};

TEST_CASE("a model has the parameters of its architecture at each scale") {
  REQUIRE(models::all_models().size() == std::size(kModelRows));
  for (std::size_t i = 0; i < std::size(kModelRows); ++i) {
    const models::ModelEntry& entry = models::all_models()[i];
    CAPTURE(entry.name);
    CHECK(entry.name == kModelRows[i].model);
    CHECK(entry.make(Scale::small, f32).parameters == kModelRows[i].small);
    CHECK(entry.make(Scale::medium, f32).parameters == kModelRows[i].medium);
    CHECK(entry.make(Scale::full, f32).parameters == kModelRows[i].full);
    CHECK(entry.make(Scale::small, f64).parameters == kModelRows[i].small);
  }
}

TEST_CASE("every shipped model is a valid graph of its element type") {
  for (const models::ModelEntry& entry : models::all_models()) {
    CAPTURE(entry.name);
    for (const Element element : {f32, f64}) {
      const models::Model model = entry.make(Scale::small, element);
      CHECK_NOTHROW(model.graph.validate());
      CHECK(model.name == entry.name);
      CHECK(model.graph.loss().element() == element);
      for (const Value& input : model.inputs) {
        CHECK((input.element() == element || (model.vocabulary > 0 && input.element() == i64)));
        CHECK(input.size(0) == 4);
      }
    }
  }
}

TEST_CASE("an unknown model or scale is answered with the right ones") {
  CHECK_THROWS_WITH_AS(models::find_model("mpl"),
                       "there is no model \"mpl\": mlp, residual_tower, gated_routing, "
                       "iterative_refine, feedback_fixed, feedback_adaptive, routed_sparse, "
                       "convnet, conv_autoenc, gru_seq, lstm_seq, transformer, gan, vae, sac, ppo",
                       RunError);
  CHECK_THROWS_WITH_AS(models::scale_of("huge"),
                       "there is no scale \"huge\": small, medium or full", RunError);
}

}  // namespace
}  // namespace metronome::parameters_test
