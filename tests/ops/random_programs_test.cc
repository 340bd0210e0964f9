// Random programs: passes keep values, plans keep bits, eager agrees.
#include <ATen/ATen.h>

#include "executor/metronome.h"
#include "graph/passes/differentiate.h"
#include "graph/passes/fold.h"
#include "graph/passes/for_mode.h"
#include "graph/passes/lower.h"
#include "graph/passes/prune.h"
#include "graph/passes/share.h"
#include "graph/passes/update.h"
#include "graph/passes/verify.h"
#include "ops/init.h"
#include "tests/doctest.h"
#include "tests/ops/interpreter.h"
#include "tests/ops/random_program.h"

namespace metronome {
namespace {

constexpr std::uint32_t kPrograms = 120;

at::Tensor input(std::uint32_t seed) {
  return at::sin(at::arange(12, at::kDouble) * (1.0 + seed)).reshape({3, 4});
}

/// What every assignment and readable of a graph is, run by its kernels in fresh memory.
std::vector<at::Tensor> results(const Graph& g, std::uint32_t seed) {
  Interpreter interpreter(g);
  interpreter.set("x", input(seed));
  for (const Storage& s : g.storages()) {
    at::Tensor tensor = at::empty(s.type.shape, at::TensorOptions(to_torch(s.type.element)));
    initialise(s, seed, tensor.data_ptr());
    interpreter.set(s.path, tensor);
  }
  interpreter.run();
  std::vector<at::Tensor> all;
  for (const Readable& r : g.readables()) all.push_back(interpreter.tensor(r.value).clone());
  for (const Assignment& a : g.assignments()) all.push_back(interpreter.tensor(a.value).clone());
  return all;
}

TEST_CASE("a pass on or off: the same values") {
  struct Optional {
    const char* name;
    Graph (*pass)(const Graph&, const Settings&);
  };
  for (std::uint32_t seed = 0; seed < kPrograms; ++seed) {
    CAPTURE(seed);
    const Graph declared = RandomProgram(seed).make();
    declared.validate();
    Graph whole = for_mode(declared, {});
    for (const auto pass : {lower, differentiate, update}) whole = pass(whole, {});
    const auto expected = results(whole, seed);
    for (const Optional optional :
         {Optional{"fold", fold}, Optional{"share", share}, Optional{"prune", prune}}) {
      CAPTURE(optional.name);
      const Graph changed = optional.pass(whole, {});
      verify(changed, optional.name);
      const auto found = results(changed, seed);
      REQUIRE(found.size() == expected.size());
      for (std::size_t i = 0; i < found.size(); ++i) {
        CHECK(at::allclose(found[i], expected[i], 1e-12, 1e-13));
      }
    }
  }
}

TEST_CASE("replay equals stepwise bit for bit, and eager within 1e-9") {
  for (std::uint32_t seed = 0; seed < kPrograms; ++seed) {
    CAPTURE(seed);
    const Graph g = RandomProgram(seed).make();
    CompileOptions options;
    options.seed = seed;
    options.threads = 1;
    options.tune = Tune::off;
    options.poison = true;
    Executable replay = compile(g, cpu_replay(), options);
    Executable walk = compile(g, stepwise(), options);
    Executable oracle = compile(g, eager(), options);
    for (int step = 0; step < 3; ++step) {
      for (Executable* e : {&replay, &walk, &oracle}) e->run({{"x", input(seed + step)}});
      for (const std::string& path : replay.storages()) {
        CAPTURE(path);
        CHECK(at::equal(replay.get(path), walk.get(path)));
      }
      CHECK(at::equal(replay.read("y"), walk.read("y")));
      CHECK(replay.read_scalar(g.loss()) ==
            doctest::Approx(oracle.read_scalar(g.loss())).epsilon(1e-9));
    }
  }
}

}  // namespace
}  // namespace metronome
