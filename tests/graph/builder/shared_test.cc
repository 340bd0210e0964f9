// The parts that copies of a graph share, and how one tells that nothing was written.
#include "graph/ir/shared.h"

#include <doctest/doctest.h>

#include <functional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graph/ir/graph.h"
#include "tests/graph/test_ops.h"

namespace metronome::testing::shared_test {
namespace {

TEST_CASE("copies share what they hold, and equal ones are equal wherever they lie") {
  const SharedConst<std::string> path = "a path that is too long to lie inside of a string";
  const SharedConst<std::string> copy = path, other = std::string(path);
  CHECK(copy.data() == path.data());
  CHECK(other.data() != path.data());
  CHECK(other == path);
  CHECK(path == std::string(other));
  CHECK_FALSE(path == std::string("another"));

  const SharedConst<Types> none, empty = Types{};
  CHECK(none.empty());
  CHECK(none.size() == 0);
  CHECK(none.begin() == none.end());
  CHECK(none == empty);
  const SharedConst<Types> types = Types{{f32, {2, 3}}, {i64, {}}};
  CHECK_FALSE(types == none);
  CHECK(types.front() == Type{f32, {2, 3}});
  CHECK(types[1] == types.back());
  CHECK(std::span<const Type>(types).size() == 2);
}

TEST_CASE("each write to a graph gives it another version, a copy keeps it") {
  ir::Graph g("g");
  std::set<std::uint64_t> versions = {g.version()};
  StorageId weight;
  ValueId read;
  const std::vector<std::function<void()>> writes = {
      [&] {
        weight = g.append_storage({"weight", Type{f32, {2}}, StorageKind::parameter, {}, {}});
      },
      [&] { g.set_layout(weight, {}); },
      [&] { read = g.read(weight); },
      [&] { g.set_trainable(weight, true); },
      [&] { g.set_rate(weight, 2); },
      [&] { g.append_readable({"loss", read, read}); },
      [&] { g.set_readable(0, read); },
      [&] { g.append_objective({read, Descent{}, {}}); },
      [&] { g.set_loss(0, read); },
      [&] { g.set_gradients(0, {{weight, read}}); },
      [&] { g.assign(weight, read, {}); },
      [&] { g.set_assignments({}); },
      [&] { g.erase_objective(0); },
  };
  for (std::size_t i = 0; i < writes.size(); ++i) {
    CAPTURE(i);
    writes[i]();
    CHECK(versions.insert(g.version()).second);
  }
  ir::Graph copy = g;
  CHECK(copy.version() == g.version());
  CHECK(ir::Graph::like(g).version() != g.version());
  const ir::Graph moved = std::move(copy);
  CHECK(moved.version() == g.version());
}

}  // namespace
}  // namespace metronome::testing::shared_test
