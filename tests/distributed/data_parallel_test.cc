// Data parallel training on ranks that are threads, beside one process that does the same.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/batches.h"
#include "distributed/collectives/async.h"
#include "distributed/join/ranks.h"
#include "distributed/ops/sync_batch_norm.h"
#include "distributed/ops/weighted.h"
#include "executor/engine/observer.h"
#include "executor/metronome.h"
#include "models/models.h"
#include "tests/aten.h"
#include "tests/distributed/data_parallel.h"
#include "tests/distributed/on_ranks.h"
#include "tests/doctest.h"

namespace metronome::distributed::data_parallel_test {
namespace {

using Named = std::map<std::string, at::Tensor>;

/// Options with which gradients are reduced as they come, on a thread beside the step.
CompileOptions in_buckets(const Own& own) {
  CompileOptions how = options(own);
  how.data_parallel = ranks_over(std::make_shared<AsyncCommunicator>(own, true), 1024);
  return how;
}

/// By path, the parameters that a loss reaches.
std::vector<std::string> trained(const Executable& step, const ir::Graph& graph) {
  const std::vector<std::string>& unreached = step.report().unreached;
  std::vector<std::string> paths;
  for (const Storage& s : graph.storages()) {
    const bool reached = std::ranges::find(unreached, s.path) == unreached.end();
    if (s.trainable && reached) paths.push_back(s.path);
  }
  return paths;
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.nbytes() == b.nbytes() && std::memcmp(a.data_ptr(), b.data_ptr(), a.nbytes()) == 0;
}

/// One process that adds the shards' gradients in the order of the ranks, and makes one update.
class OneProcess {
 public:
  OneProcess(const models::ModelEntry& entry, int shards) {
    for (int i = 0; i < shards; ++i) {
      models_.push_back(entry.make(models::Scale::small, f32));
      Graph& graph = models_.back().graph;
      std::map<std::string, Value> gradients;
      for (std::size_t k = 0; k < graph.data().storages().size(); ++k) {
        const Storage& s = graph.data().storages()[k];
        if (s.trainable) gradients[s.path] = graph.gradient(graph.parameter(s.path));
      }
      gradients_.push_back(std::move(gradients));
      shards_.push_back(compile(graph, cpu_replay(), {.threads = 1, .tune = Tune::off}));
    }
    paths_ = trained(shards_[0], models_[0].graph.data());
    Graph update("update");
    Value loss;
    for (const std::string& path : paths_) {
      const Type type = shards_type(path);
      const Value term = sum(update.parameter(named(path), type, zeros()) *
                             update.input(gradient_of(path), type.element, type.shape));
      loss = loss.present() ? loss + term : term;
    }
    update.minimize(loss, models_[0].graph.data().objectives()[0].optimizer);
    update_ = compile(update, cpu_replay(), {.threads = 1, .tune = Tune::off});
    for (const std::string& path : paths_) update_->set(named(path), shards_[0].get(path));
  }

  /// [shard] The loss of each.
  std::vector<double> step(std::span<const std::span<const Feed>> batches) {
    const auto shards = static_cast<double>(shards_.size());
    std::vector<double> losses;
    for (std::size_t i = 0; i < shards_.size(); ++i) {
      for (const std::string& path : paths_) shards_[i].set(path, update_->get(named(path)));
      shards_[i].run(batches[i]);
      losses.push_back(shards_[i].read_scalar(models_[i].graph.loss()));
    }
    std::vector<Feed> sums;
    for (const std::string& path : paths_) {
      at::Tensor sum = gradient(0, path).clone();
      for (std::size_t i = 1; i < shards_.size(); ++i) sum += gradient(i, path);
      sums.push_back({gradient_of(path), sum / shards});
    }
    update_->run(sums);
    return losses;
  }

  const std::vector<std::string>& paths() const { return paths_; }
  at::Tensor parameter(const std::string& path) const { return update_->get(named(path)); }

 private:
  /// In the graph of the update, which has no scopes.
  static std::string named(std::string path) {
    std::ranges::replace(path, '/', '.');
    return path;
  }
  static std::string gradient_of(const std::string& path) { return "gradient." + named(path); }

  Type shards_type(const std::string& path) const {
    const ir::Graph& graph = models_[0].graph.data();
    return graph.storage(*graph.find_storage(path)).type;
  }
  at::Tensor gradient(std::size_t shard, const std::string& path) {
    return shards_[shard].read(gradients_[shard].at(path));
  }

  std::vector<models::Model> models_;
  std::vector<std::map<std::string, Value>> gradients_;
  std::vector<Executable> shards_;
  std::vector<std::string> paths_;
  std::optional<Executable> update_;
};

TEST_CASE("ranks train bit for bit as one process that adds their gradients in order") {
  constexpr int kSteps = 100;
  for (const char* name :
       {"mlp", "residual_tower", "gated_routing", "feedback_adaptive", "gru_seq", "convnet"}) {
    const models::ModelEntry& entry = models::find_model(name);
    for (const int ranks : {2, 3}) {
      if (ranks == 3 && std::string(name) != "mlp") continue;
      CAPTURE(name);
      CAPTURE(ranks);
      const models::Model model = entry.make(models::Scale::small, f32);
      const benchmarks::Batches batches(model, static_cast<std::size_t>(kSteps * ranks));
      const auto batch = [&](int step, int rank) {
        return batches.of_step(static_cast<std::size_t>(step * ranks + rank));
      };
      OneProcess one(entry, ranks);
      std::vector<double> losses;  // [step] the shards' mean
      for (int step = 0; step < kSteps; ++step) {
        std::vector<std::span<const Feed>> shards;
        for (int rank = 0; rank < ranks; ++rank) shards.push_back(batch(step, rank));
        float sum = 0;
        for (const double loss : one.step(shards)) sum += static_cast<float>(loss);
        losses.push_back(sum / static_cast<float>(ranks));
      }
      for (const bool overlap : {false, true}) {
        CAPTURE(overlap);
        CHECK(on_ranks(ranks, [&](const Own& own) {
                const models::Model mine = entry.make(models::Scale::small, f32);
                Executable step =
                    compile(mine.graph, cpu_replay(), overlap ? in_buckets(own) : options(own));
                for (int i = 0; i < kSteps; ++i) {
                  step.run(batch(i, own->rank()));
                  CHECK(step.read_scalar(mine.graph.loss()) == losses[static_cast<std::size_t>(i)]);
                }
                for (const std::string& path : one.paths()) {
                  CHECK_MESSAGE(same_bits(step.get(path), one.parameter(path)), path);
                }
              }) == nothing(ranks));
      }
    }
  }
}

/// A net whose rows meet in a norm of the whole batch.
Graph net(std::int64_t rows, const Layer& norm) {
  Graph g("net");
  const Value x = g.input("x", f64, {rows, 2, 6, 6});
  const Value y = x.through(conv2d(4, 3)).through(norm).through(relu).through(max_pool2d(2));
  const Value logits = y.through(flatten()).through(linear(3));
  g.minimize(cross_entropy_loss(logits, g.input("target", i64, {rows})), AdamW{.lr = 1e-2});
  return g;
}

TEST_CASE("ranks train as one process does with the whole batch") {
  constexpr int kRanks = 2, kRows = 4, kSteps = 10;
  const auto images = [](int step) {
    return (at::arange(8 * 72, at::kDouble) * 0.7 + step).sin().reshape({8, 2, 6, 6});
  };
  const auto targets = [](int step) { return (at::arange(8, at::kLong) + step).remainder(3); };
  for (const Target& target : {cpu_replay(), stepwise(), eager()}) {
    const Graph whole = net(kRanks * kRows, batch_norm());
    Executable one = compile(whole, target, {.threads = 1, .tune = Tune::off});
    std::vector<double> losses;
    for (int i = 0; i < kSteps; ++i) {
      one.run({{"x", images(i)}, {"target", targets(i)}});
      losses.push_back(one.read_scalar(whole.loss()));
    }
    CHECK(on_ranks(kRanks, [&](const Own& own) {
            const Graph part = net(kRows, sync_batch_norm());
            Executable step = compile(part, target, options(own));
            const std::int64_t begin = kRows * own->rank();
            for (int i = 0; i < kSteps; ++i) {
              step.run({{"x", images(i).narrow(0, begin, kRows)},
                        {"target", targets(i).narrow(0, begin, kRows)}});
              const double loss = step.read_scalar(part.loss());
              CHECK(std::abs(loss - losses[static_cast<std::size_t>(i)]) < 1e-9);
            }
            for (const std::string& path : one.storages()) {
              if (step.get(path).scalar_type() != at::kDouble) continue;
              CHECK_MESSAGE((step.get(path) - one.get(path)).abs().max().item<double>() < 1e-9,
                            path);
            }
          }) == nothing(kRanks));
  }
}

TEST_CASE("ranks begin as rank 0 does, and read the same loss and gradients") {
  for (const Target& target : {cpu_replay(), stepwise(), eager()}) {
    std::vector<at::Tensor> begun(2), gradients(2);
    std::vector<double> losses(2);
    CHECK(on_ranks(2, [&](const Own& own) {
            Graph g("begin");
            const Value x = g.input("x", f32, {3});
            const Value w = g.parameter("w", {f32, {3}}, normal(0, 1));
            g.minimize(mean(square(x - w)), Sgd{.lr = 1, .clip_norm = 0.5});
            const Value gradient = g.gradient(w);
            // Made of means, as what is read is.
            g.output("slope", norm(gradient) * 2.0 + g.loss());
            g.average("w", {.decay = 0.9});
            CompileOptions how = options(own);
            how.seed = static_cast<std::uint64_t>(own->rank());
            Executable step = compile(g, target, how);
            const auto r = static_cast<std::size_t>(own->rank());
            begun[r] = step.get("w").clone();
            step.run({{"x", at::full({3}, own->rank() * 2.0, at::kFloat)}});
            losses[r] = step.read_scalar(g.loss());
            gradients[r] = step.read(gradient).clone();
            CHECK(step.read("slope").item<double>() ==
                  doctest::Approx(2 * gradients[r].norm().item<double>() + losses[r]));
            CHECK(same_bits(step.get("average/ema/w"), step.get("w")));
          }) == nothing(2));
    CHECK(same_bits(begun[0], begun[1]));
    CHECK(losses[0] == losses[1]);
    CHECK(same_bits(gradients[0], gradients[1]));
    CHECK(at::allclose(gradients[0], (begun[0] - 1) * 2 / 3, 1e-6, 1e-7));
    const double loss = (begun[0].square().mean() + (begun[0] - 2).square().mean()).item<double>();
    CHECK(losses[0] == doctest::Approx(loss / 2));
  }
}

TEST_CASE("ranks drop what one process with the whole batch would") {
  // Rows of 5 and 7 numbers: ranks begin within a block of the generator.
  const at::Tensor x = at::arange(1, 29, at::kFloat).reshape({4, 7});
  const auto declare = [](Graph& g, std::int64_t rows) {
    const Value h = g.input("x", f32, {rows, 7}).through(dropout(0.5));
    const Value w = g.parameter("w", {f32, {7}}, ones());
    g.output("h", h);
    g.minimize(mean(h * w), Sgd{.lr = 0.1});
  };
  for (const Target& target : {cpu_replay(), stepwise(), eager()}) {
    Graph whole("drop");
    declare(whole, 4);
    Executable one = compile(whole, target, {.seed = 3, .threads = 1});
    at::Tensor dropped;
    for (int i = 0; i < 3; ++i) one.run({{"x", x}}), dropped = one.read("h").clone();
    CHECK(on_ranks(4, [&](const Own& own) {
            Graph part("drop");
            declare(part, 1);
            CompileOptions how = options(own);
            how.seed = 3;
            Executable step = compile(part, target, how);
            for (int i = 0; i < 3; ++i) step.run({{"x", x.narrow(0, own->rank(), 1)}});
            CHECK(step.read("h").equal(dropped.narrow(0, own->rank(), 1)));
            CHECK(at::allclose(step.get("w"), one.get("w"), 1e-6, 1e-7));
          }) == nothing(4));
  }
}

TEST_CASE("ranks draw what one process with the whole batch would, or all the same") {
  const auto declare = [](Graph& g, std::int64_t rows) {
    const Value x = g.input("x", f32, {rows, 7});
    g.output("own", x + randn_like(x, "own"));
    g.output("same", rand(g.seed(), "same", {f32, {5}}, {.same_on_ranks = true}));
    g.minimize(mean(x * g.parameter("w", {f32, {7}}, ones()) * rand_like(x, "factor")),
               Sgd{.lr = 0.1});
  };
  const at::Tensor x = at::arange(1, 29, at::kFloat).reshape({4, 7});
  for (const Target& target : {cpu_replay(), stepwise(), eager()}) {
    Graph whole("draw");
    declare(whole, 4);
    Executable one = compile(whole, target, {.seed = 3, .threads = 1});
    for (int i = 0; i < 3; ++i) one.run({{"x", x}});
    const at::Tensor own_rows = one.read("own").clone(), same = one.read("same").clone();
    CHECK(on_ranks(4, [&](const Own& own) {
            Graph part("draw");
            declare(part, 1);
            CompileOptions how = options(own);
            how.seed = 3;
            Executable step = compile(part, target, how);
            for (int i = 0; i < 3; ++i) step.run({{"x", x.narrow(0, own->rank(), 1)}});
            CHECK(step.read("own").equal(own_rows.narrow(0, own->rank(), 1)));
            CHECK(step.read("same").equal(same));
            CHECK(at::allclose(step.get("w"), one.get("w"), 1e-6, 1e-7));
          }) == nothing(4));
  }
}

TEST_CASE("ranks take rank 0's kernel choices") {
  const std::string folder =
      std::getenv("TEST_TMPDIR") == nullptr ? "/tmp" : std::getenv("TEST_TMPDIR");
  const auto file = [&](int rank) { return fmt::format("{}/choices-{}.json", folder, rank); };
  std::vector<std::uint64_t> hashes(2);
  std::vector<std::vector<KernelChoice>> choices(2);
  for (const int rank : {0, 1}) std::filesystem::remove(file(rank));
  CHECK(on_ranks(2, [&](const Own& own) {
          Graph g("choices");
          const Value y = g.input("x", f32, {64, 96}).through(linear(80)).through(linear(48));
          g.minimize(mean(square(y)), Sgd{.lr = 0.1});
          CompileOptions how = options(own);
          how.tune = Tune::measure;
          how.tuning_file = file(own->rank());
          const Executable step = compile(g, cpu_replay(), how);
          const auto r = static_cast<std::size_t>(own->rank());
          hashes[r] = step.report().choices_hash;
          choices[r] = step.report().choices;
        }) == nothing(2));
  CHECK(hashes[0] == hashes[1]);
  CHECK(!choices[0].empty());
  CHECK(std::filesystem::exists(file(0)));
  CHECK_FALSE(std::filesystem::exists(file(1)));  // it timed nothing
  for (const KernelChoice& choice : choices[1]) {
    CHECK_MESSAGE(choice.how != "timed", to_string(choice));
  }

  // Two ranks with different numbers of threads.
  CHECK(on_ranks(2, [&](const Own& own) {
          Graph g("choices");
          g.minimize(mean(square(g.input("x", f32, {4, 3}).through(linear(2)))), Sgd{.lr = 0.1});
          CompileOptions how = options(own);
          how.tune = Tune::file;
          how.threads = 1 + own->rank();
          const Executable step = compile(g, cpu_replay(), how);
          const std::string note =
              "rank 1 is on another kind of machine than rank 0, or with other threads: kernels of "
              "their own choice, so that bits may differ from rank to rank";
          const auto text = [](const KernelChoice& choice) { return to_string(choice); };
          CHECK(std::ranges::count(step.report().choices, note, text) == 1);
        }) == nothing(2));
}

TEST_CASE("ranks take rank 0's choice of what is computed again") {
  const std::string folder =
      std::getenv("TEST_TMPDIR") == nullptr ? "/tmp" : std::getenv("TEST_TMPDIR");
  const auto file = [&](int rank) { return fmt::format("{}/again-{}.json", folder, rank); };
  for (const int rank : {0, 1}) std::filesystem::remove(file(rank));
  std::vector<std::vector<RecomputedValue>> again(2);
  CHECK(on_ranks(2, [&](const Own& own) {
          Graph g("again");
          Value h = g.input("x", f32, {64, 32});
          for (int i = 0; i < 6; ++i)
            h = h + h.through(linear(64)).through(gelu).through(linear(32));
          g.minimize(mean(square(h)), Sgd{.lr = 0.1});
          CompileOptions how = options(own);
          how.tune = Tune::measure;
          how.tuning_file = file(own->rank());
          how.memory_budget = compile(g, cpu_replay(), how).report().arena_bytes * 7 / 10;
          Executable step = compile(g, cpu_replay(), how);
          CHECK(step.report().arena_bytes <= *how.memory_budget);
          again[static_cast<std::size_t>(own->rank())] = step.report().plan(train).recomputed;
          step.run({{"x", at::ones({64, 32})}});
        }) == nothing(2));
  const auto same = [](const RecomputedValue& a, const RecomputedValue& b) {
    return a.path == b.path && a.bytes == b.bytes;
  };
  CHECK(!again[0].empty());
  CHECK(std::ranges::equal(again[0], again[1], same));
  CHECK_FALSE(std::filesystem::exists(file(1)));
}

TEST_CASE("a mean over some of the rows is weighted by how many they are") {
  // Rank 0 has one row that counts, rank 1 three.
  const at::Tensor x = at::arange(24, at::kDouble).sin().reshape({8, 3});
  const at::Tensor targets = at::tensor({-100, 1, -100, -100, 0, 2, 1, -100}, at::kLong);
  const auto declare = [](Graph& g, std::int64_t rows, bool weighted) {
    const Value logits = g.input("x", f64, {rows, 3}) * g.parameter("w", {f64, {3}}, ones());
    const Value wanted = g.input("target", i64, {rows});
    const Value loss = cross_entropy_loss(logits, wanted);
    const Value count = sum((wanted != -100).cast(i64));
    g.minimize(weighted ? weighted_by(loss, count) : loss, Sgd{.lr = 0.5});
  };
  for (const Target& target : {cpu_replay(), stepwise(), eager()}) {
    Graph whole("tokens");
    declare(whole, 8, false);
    Executable one = compile(whole, target, {.threads = 1});
    std::vector<double> losses;
    for (int i = 0; i < 5; ++i) {
      one.run({{"x", x}, {"target", targets}});
      losses.push_back(one.read_scalar(whole.loss()));
    }
    CHECK(on_ranks(2, [&](const Own& own) {
            Graph part("tokens");
            declare(part, 4, true);
            Executable step = compile(part, target, options(own));
            const std::int64_t begin = 4 * own->rank();
            for (int i = 0; i < 5; ++i) {
              step.run({{"x", x.narrow(0, begin, 4)}, {"target", targets.narrow(0, begin, 4)}});
              CHECK(step.read_scalar(part.loss()) ==
                    doctest::Approx(losses[static_cast<std::size_t>(i)]).epsilon(1e-12));
            }
            CHECK(at::allclose(step.get("w"), one.get("w"), 1e-12, 1e-12));
          }) == nothing(2));
  }
}

/// The names of some ops, in the order in which they run.
class Order final : public Observer {
 public:
  void after(const ObservedNode& seen) override {
    const std::string_view name = seen.node().op->name();
    if (name == "begin_mean" || name == "finish_mean" || name == "matmul") ran += name[0];
  }
  std::string ran;
};

TEST_CASE("each bucket is on its way while the next one is made") {
  CHECK(on_ranks(2, [](const Own& own) {
          Graph g("tower");
          Value y = g.input("x", f32, {8, 32});
          for (int layer = 0; layer < 3; ++layer) y = y.through(linear(32)).through(relu);
          g.minimize(mean(square(y)), Sgd{.lr = 0.1});
          CompileOptions how = in_buckets(own);
          how.watch = true;  // not of numbers that are on their way
          how.poison = true;
          const auto order = std::make_shared<Order>();
          how.observer = order;
          Executable step = compile(g, stepwise(), how);
          for (int i = 0; i < 3; ++i) {
            order->ran.clear();
            step.run({{"x", at::ones({8, 32})}});
            CHECK(order->ran == "mbmmbfmmbfbff");
          }
        }) == nothing(2));
}

TEST_CASE("a NaN of one rank reaches all in the same step, and each says where it met it") {
  for (const bool overlap : {false, true}) {
    std::vector<std::string> faults(2);
    CHECK(on_ranks(2, [&](const Own& own) {
            Graph g("nan");
            const Value w = g.parameter("w", {f32, {400}}, ones());
            const Value v = g.parameter("v", {f32, {400}}, ones());
            g.minimize(mean(g.input("x", f32, {400}) * w * v), Sgd{.lr = 0.1});
            CompileOptions how = overlap ? in_buckets(own) : options(own);
            how.watch = true;
            Executable step = compile(g, cpu_replay(), how);
            at::Tensor x = at::ones({400});
            step.run({{"x", x}});
            CHECK_FALSE(step.fault().has_value());
            if (own->rank() == 1) x[3] = std::nanf("");
            step.run({{"x", x}});
            faults[static_cast<std::size_t>(own->rank())] = step.fault().value_or("");
            CHECK(step.get("w").isnan().any().item<bool>());
            CHECK(step.get("v").isnan().any().item<bool>());
            CHECK(std::isnan(step.read_scalar(g.loss())));
          }) == nothing(2));
    CHECK_MESSAGE(faults[0].ends_with(": made a NaN, of numbers of all ranks"), faults[0]);
    CHECK_MESSAGE((faults[0].find("_mean") != std::string::npos) == overlap, faults[0]);
    CHECK_MESSAGE(faults[1].ends_with(": read a NaN from input \"x\""), faults[1]);
  }
}

TEST_CASE("an optimizer that is lazy is refused") {
  std::string line;
  const std::vector<std::string> told = on_ranks(1, [&](const Own& own) {
    Graph g("lazy");
    const Value w = g.parameter("w", {f32, {9, 2}}, {});
    line = fmt::format("data_parallel_test.cc:{}", __LINE__ + 1);
    g.minimize(mean(embedding_lookup(w, g.input("x", i64, {3}))), Adam{.lazy = true});
    compile(g, cpu_replay(), options(own));
  });
  CHECK(told[0].ends_with(
      line +
      ": adam cannot train data parallel\n  requires   an optimizer that is not lazy, as "
      "the ranks' gradients are joined in all rows of a table"));
}

TEST_CASE("two worlds at once are refused") {
  const std::string told =
      "graph \"two\": CompileOptions::world and CompileOptions::data_parallel are two; give one of "
      "them, as the second is a world, too";
  CHECK(on_ranks(1, [](const Own& own) {
          Graph g("two");
          g.output("y", g.input("x", f32, {1}) * 2);
          CompileOptions how = options(own, {Mode::evaluate});
          how.world = ranks_over(own);
          compile(g, cpu_replay(), how);
        }) == std::vector<std::string>{told});
}

}  // namespace
}  // namespace metronome::distributed::data_parallel_test
