// Several objectives on ranks that are threads, beside one process that does the same.
#include <cstdint>
#include <string>
#include <vector>

#include "distributed/ops/all_reduce.h"
#include "distributed/ops/weighted.h"
#include "executor/metronome.h"
#include "tests/aten.h"
#include "tests/distributed/data_parallel.h"
#include "tests/distributed/on_ranks.h"
#include "tests/doctest.h"
#include "tests/error_of.h"

namespace metronome::distributed::ranks_objectives_test {
namespace {

using tests::error_of;

/// Two networks, each with an objective of its own; the second loss reads both: it is the first
/// one, it is declared before both updates, or it reads the critic that the first one has updated,
/// in each step or in every second one.
struct TwoObjectives {
  enum class Second { first, before, updated, resting };
  Graph g{"objectives"};
  Objective actor, critic;

  explicit TwoObjectives(std::int64_t rows, Second second) {
    const Value x = g.input("x", f64, {rows, 3});
    const Value act = metronome::tanh(x.scope("actor", linear(2)));
    const Value judged = concat({x, act}, 1).scope("critic", linear(1));
    const Value low = mean(square(judged - 1.0));
    Value high = second == Second::first ? low : -mean(metronome::tanh(judged));
    critic = g.minimize(low, Adam{.lr = 1e-2}, {.name = "critic", .parameters = {"critic"}});
    ObjectiveOptions options{.name = "actor", .parameters = {"actor"}};
    if (second == Second::resting) options.every = 2, options.skip_not_finite = true;
    if (second == Second::updated || second == Second::resting) {
      const Value again = linear(concat({x, act}, 1), g.parameter("critic/linear/weight"));
      high = -mean(metronome::tanh(again));
    }
    actor = g.minimize(high, Sgd{.lr = 0.1}, options);
    if (second != Second::resting) {
      g.output("slope", sum(actor.gradient(g.parameter("actor/linear/weight"))));
    }
  }
};

TEST_CASE("ranks train several objectives as one process does with the whole batch") {
  constexpr int kRanks = 2, kExamples = 4, kSteps = 10;
  const auto rows = [](int step) {
    return (at::arange(8 * 3, at::kDouble) * 0.7 + step).sin().reshape({8, 3});
  };
  const auto check = [&](const Target& target, TwoObjectives::Second second) {
    const TwoObjectives whole(kRanks * kExamples, second);
    Executable one = compile(whole.g, target, {.threads = 1, .tune = Tune::off});
    for (int i = 0; i < kSteps; ++i) one.run({{"x", rows(i)}});
    CHECK(on_ranks(kRanks, [&](const Own& own) {
            const TwoObjectives part(kExamples, second);
            Executable step = compile(part.g, target, options(own));
            for (int i = 0; i < kSteps; ++i) {
              step.run({{"x", rows(i).narrow(0, kExamples * own->rank(), kExamples)}});
            }
            for (const char* read : {"loss/actor", "loss/critic", "slope"}) {
              if (second == TwoObjectives::Second::resting && read == std::string("slope"))
                continue;
              CHECK_MESSAGE(step.read(read).item<double>() ==
                                doctest::Approx(one.read(read).item<double>()).epsilon(1e-9),
                            read);
            }
            for (const std::string& path : one.storages()) {
              if (step.get(path).scalar_type() != at::kDouble) continue;
              CHECK_MESSAGE((step.get(path) - one.get(path)).abs().max().item<double>() < 1e-9,
                            path);
            }
          }) == nothing(kRanks));
  };
  for (const Target& target : {cpu_replay(), stepwise(), eager()}) {
    using enum TwoObjectives::Second;
    for (const auto second : {first, before, updated, resting}) check(target, second);
  }
}

TEST_CASE("ranks accumulate batches of unequal counts as one process does") {
  // Two replays of two rows a rank; the mask says which rows count.
  const at::Tensor x = (at::arange(8 * 3, at::kDouble) * 0.7).sin().reshape({8, 3});
  const at::Tensor mask = at::tensor({1., 0., 1., 1., 0., 1., 1., 1.}, at::kDouble);
  const auto declare = [](Graph& g, std::int64_t rows, bool on_ranks) {
    const Value x = g.input("x", f64, {rows, 3}), mask = g.input("mask", f64, {rows});
    const Value w = g.parameter("w", {f64, {3}}, ones());
    const Value count = sum(mask), loss = sum(square(sum(x * w, {1}) - 1.0) * mask) / count;
    ObjectiveOptions options{.accumulate = 2};
    options.weight = on_ranks ? all_reduce(count) : count;
    g.minimize(on_ranks ? weighted_by(loss, count) : loss, Sgd{.lr = 0.3}, options);
  };
  for (const Target& target : {cpu_replay(), stepwise(), eager()}) {
    Graph whole("counts");
    declare(whole, 4, false);
    Executable one = compile(whole, target, {.threads = 1});
    for (int i = 0; i < 4; ++i) {
      const std::int64_t at = i % 2 * 4;
      one.run({{"x", x.narrow(0, at, 4)}, {"mask", mask.narrow(0, at, 4)}});
    }
    CHECK(on_ranks(2, [&](const Own& own) {
            Graph part("counts");
            declare(part, 2, true);
            Executable step = compile(part, target, options(own));
            for (int i = 0; i < 4; ++i) {
              const std::int64_t at = i % 2 * 4 + own->rank() * 2;
              step.run({{"x", x.narrow(0, at, 2)}, {"mask", mask.narrow(0, at, 2)}});
            }
            CHECK(at::allclose(step.get("w"), one.get("w"), 1e-10, 1e-12));
          }) == nothing(2));
  }
  for (const std::string& said : on_ranks(2, [&](const Own& own) {
         Graph g("own");
         declare(g, 2, false);
         compile(g, cpu_replay(), options(own));
       })) {
    CHECK_MESSAGE(said.find("way out    .weight = mt::all_reduce(tokens), of "
                            "mt::weighted_by(loss, tokens)") != std::string::npos,
                  said);
  }
}

TEST_CASE("ranks that may decide differently whether an objective trains are refused") {
  const auto said_where = [](bool joined) {
    return on_ranks(2, [=](const Own& own) {
      Graph g("decides");
      const Value x = g.input("x", f64, {3}, {"net.cc", 1});
      const Value loss = mean(square(x * g.parameter("w", {f64, {3}}, ones())));
      const Value sum = joined ? all_reduce(mean(x)) : mean(x);
      g.minimize(loss, Sgd{}, {.when = sum > 0.0}, {"net.cc", 4});
      Executable step = compile(g, cpu_replay(), options(own));
      for (const double sign : {1.0, -1.0}) {
        step.run({{"x", at::full({3}, sign * (own->rank() + 1), at::kDouble)}});
      }
      CHECK(step.updates() == 1);
    });
  };
  CHECK(said_where(true) == nothing(2));
  for (const std::string& said : said_where(false)) {
    CHECK_MESSAGE(said.find("net.cc:4: minimize cannot train where ranks may decide differently "
                            "whether it does\n  decided by f64[3]  \"x\"  net.cc:1\n  requires   a "
                            "decision made of constants, counters and what mt::all_reduce or "
                            "mt::broadcast gave\n  way out    let one of them join what decides") !=
                      std::string::npos,
                  said);
  }
}

TEST_CASE("ranks set numbers of an optimizer to the same, or all are refused") {
  const auto declare = [](Graph& g) {
    const Value x = g.input("x", f64, {3});
    const Value w = g.parameter("w", {f64, {3}}, ones());
    g.minimize(mean(x * w), Sgd{.lr = Settable{0.1}}, {.name = "policy"});
  };
  for (const Target& target : {cpu_replay(), eager()}) {
    CHECK(on_ranks(2, [&](const Own& own) {
            Graph g("rates");
            declare(g);
            Executable step = compile(g, target, options(own));
            const at::Tensor x = at::full({3}, own->rank() * 2.0, at::kDouble);
            step.set_learning_rate(0.6);
            step.run({{"x", x}});
            CHECK(at::allclose(step.get("w"), at::full({3}, 0.8, at::kDouble)));
            CHECK(error_of([&] { step.set_learning_rate(0.5 + own->rank()); }) ==
                  "graph \"rates\": ranks make different calls, and none is made:\n"
                  "  rank 0     set_learning_rate(0.5, \"policy\")\n"
                  "  rank 1     set_learning_rate(1.5, \"policy\")");
            CHECK(error_of([&] { step.run_many(1 + own->rank()); }) ==
                  "graph \"rates\": ranks make different calls, and none is made:\n"
                  "  rank 0     run_many(1)\n"
                  "  rank 1     run_many(2)");
            CHECK(step.learning_rate() == 0.6);
            step.run({{"x", x}});
            CHECK(at::allclose(step.get("w"), at::full({3}, 0.6, at::kDouble)));
          }) == nothing(2));
  }
}

TEST_CASE("ranks wait together for their replay buffers, each of rows of its own") {
  CHECK(on_ranks(2, [&](const Own& own) {
          Graph g("waits");
          const Value x = g.input("x", f64, {1, 2});
          const ReplayBuffer memory("replay", 8, {{"x", x}});
          const Value batch = memory.sample(4, "batch")[0];
          g.minimize(mean(batch * g.parameter("w", {f64, {2}}, zeros())), Sgd{.lr = 0.1},
                     {.when = all_reduce(memory.size().cast(f32)) >= 3.0});
          Executable step = compile(g, cpu_replay(), options(own));
          for (int i = 0; i < 5; ++i) {
            step.run({{"x", at::full({1, 2}, own->rank() + 1.0, at::kDouble)}});
          }
          CHECK(step.updates() > 0);
          CHECK(step.updates() < 5);
          CHECK(step.get("replay/x")[0][0].item<double>() == own->rank() + 1.0);
          // The mean of both ranks' gradients, 1 and 2.
          CHECK(step.get("w")[0].item<double>() ==
                doctest::Approx(-0.1 * 1.5 / 2 * static_cast<double>(step.updates())));
        }) == nothing(2));
}

TEST_CASE("ranks lower a rate by a loss that they have in common, and by no other") {
  const auto said_where = [](bool joined) {
    return on_ranks(2, [=](const Own& own) {
      Graph g("plateau");
      const Value x = g.input("x", f64, {3}, {"net.cc", 1});
      const Value own_loss = mean(x * g.parameter("w", {f64, {3}}, zeros()));
      const Plateau plateau{.lr = 0.1, .factor = 0.5, .patience = 0, .every = 1};
      g.minimize(joined ? all_reduce(own_loss) : own_loss, Sgd{.lr = plateau}, {"net.cc", 4});
      Executable step = compile(g, cpu_replay(), options(own));
      for (int i = 0; i < 3; ++i) {
        step.run({{"x", at::full({3}, own->rank() - 0.5, at::kDouble)}});
      }
      CHECK(step.learning_rate() == 0.025);  // the ranks' gradients cancel: the loss stays 0
    });
  };
  CHECK(said_where(true) == nothing(2));
  for (const std::string& said : said_where(false)) {
    CHECK_MESSAGE(said.find("net.cc:4: sgd cannot watch a loss that may differ between ranks\n"
                            "  the loss   f64[3]  \"x\"  net.cc:1\n"
                            "  requires   a loss made of constants, counters and what "
                            "mt::all_reduce or mt::broadcast gave\n"
                            "  way out    .lr = mt::Settable{1e-3}, and set_learning_rate between "
                            "steps") != std::string::npos,
                  said);
  }
}

}  // namespace
}  // namespace metronome::distributed::ranks_objectives_test
