// Random programs: optional passes keep values.
#include "executor/metronome.h"
#include "graph/check/verify.h"
#include "graph/passes/fold.h"
#include "graph/passes/for_mode.h"
#include "graph/passes/lower.h"
#include "graph/passes/prune.h"
#include "graph/passes/share.h"
#include "graph/passes/training/differentiate.h"
#include "graph/passes/training/update.h"
#include "ops/language/init.h"
#include "tests/aten.h"
#include "tests/doctest.h"
#include "tests/ops/interpreter.h"
#include "tests/ops/random_program.h"
#include "tests/random/run.h"

namespace metronome::random_programs_test {
namespace {

constexpr std::uint32_t kPrograms = 120;

/// Returns every assignment and readable of a graph, run by its kernels in fresh memory.
std::vector<at::Tensor> results(const ir::Graph& g, std::uint32_t seed) {
  Interpreter interpreter(g);
  for (const Feed& feed : random_programs::feeds(g, seed, static_cast<int>(seed % 4))) {
    interpreter.set(feed.name, feed.tensor());
  }
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
    ir::Graph (*pass)(ir::Graph, const Settings&);
  };
  for (std::uint32_t seed = 0; seed < kPrograms; ++seed) {
    CAPTURE(seed);
    const Graph declared = random_graph(seed, random_programs::Language::whole);
    declared.validate();
    ir::Graph whole = passes::for_mode(declared, {});
    for (const auto pass : {passes::lower, passes::differentiate, passes::update})
      whole = pass(whole, {});
    const auto expected = results(whole, seed);
    for (const Optional optional :
         {Optional{"fold", passes::fold}, Optional{"share", passes::share},
          Optional{"prune", passes::prune}}) {
      CAPTURE(optional.name);
      const ir::Graph changed = optional.pass(whole, {});
      check::verify(changed, optional.name);
      const auto found = results(changed, seed);
      REQUIRE(found.size() == expected.size());
      for (std::size_t i = 0; i < found.size(); ++i) {
        CHECK(at::allclose(found[i], expected[i], 1e-12, 1e-13));
      }
    }
  }
}

}  // namespace
}  // namespace metronome::random_programs_test
