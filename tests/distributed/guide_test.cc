// The snippets on ranks in docs/guide.md, compiled and run by one rank: each stands here line by
// line (tests/source/documents_test.py).
#include "distributed/distributed.h"

#include "executor/metronome.h"
#include "tests/aten.h"
#include "tests/doctest.h"

namespace mt = metronome;

namespace metronome {
namespace {

TEST_CASE("a program for several ranks is one for one rank, too") {
  mt::Graph g("ranks");
  mt::Value x = g.input("x", mt::f32, {8, 4}), target = g.input("target", mt::f32, {8, 1});
  g.minimize(mt::mse_loss(x.through(mt::linear(1)), target), mt::Sgd{.lr = 0.1});
  const at::Tensor my_rows = at::ones({8, 4}), my_targets = at::ones({8, 1});

  const mt::World world = mt::World::from_environment();  // alone without RANK
  mt::Executable step = mt::compile(g, mt::cpu_replay(), {.data_parallel = world});
  step.run({{"x", my_rows}, {"target", my_targets}});  // each rank its own batch
  CHECK(step.updates() == 1);
}

}  // namespace
}  // namespace metronome
