// A program of ranks: rank_program FOLDER WORD... does what the words say, and keeps what it has to
// say in FOLDER/RANK.
//   meet            joins the world, and says who it is
//   sum             a step that adds 1, 2, ... over the ranks, and says what it makes
//   steps K R WORD  steps in which all ranks add numbers, until rank R does this before step K:
//                   kill or stop itself, feed a wrong shape, leave, or sleep for longer than
//                   silence may last and go on for ten steps; or die while the others sleep. An
//                   error stands in FOLDER/RANK.error, and the time at which rank R did it in
//                   FOLDER/moment
//   train K R WORD  the same, but they train, and reduce gradients beside the step
//   only R WORD...  when all are there, does the words if it is rank R; else waits for a signal
//   return N        returns N
//   raise N         sends itself a signal
//   launch N        starts N ranks of itself with the words that follow
#include <ATen/ops/full.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "distributed/launch/launch.h"
#include "distributed/ops/all_reduce.h"
#include "distributed/world/world.h"
#include "executor/metronome.h"
#include "graph/ir/error.h"

namespace {

using namespace metronome;
using Words = std::vector<std::string>;

/// Whole or absent, as a test waits for it.
void say(const std::string& folder, const std::string& text) {
  const char* rank = std::getenv("RANK");
  const std::string path = folder + "/" + (rank == nullptr ? "none" : rank);
  std::ofstream(path + ".part") << text;
  std::filesystem::rename(path + ".part", path);
}

/// Until every rank has said something.
void await_all(const std::string& folder) {
  for (int rank = 0; rank < std::stoi(std::getenv("WORLD_SIZE")); ++rank) {
    while (!std::filesystem::exists(fmt::format("{}/{}", folder, rank))) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
}

/// A step of a rank, on x f32[1000].
class Step {
 public:
  Step(const World& world, bool trains) : world_(world), trains_(trains), g_("steps") {
    const Value x = g_.input("x", f32, {1000});
    if (!trains) {
      g_.output("y", all_reduce(x));
      step_ = compile(g_, cpu_replay(), {.modes = {Mode::evaluate}, .world = world});
      return;
    }
    Value y = x;
    for (const char* name : {"u", "v", "w"}) y = y * g_.parameter(name, {f32, {1000}}, ones());
    g_.minimize(mean(y), Sgd{.lr = 0.0});
    step_ = compile(g_, cpu_replay(), {.modes = {Mode::train}, .data_parallel = world});
  }

  void take(const at::Tensor& x) { trains_ ? step_->run({{"x", x}}) : step_->evaluate({{"x", x}}); }

  /// Whether step i made what it must.
  bool is_right(int i) {
    if (trains_) return step_->read_scalar(g_.loss()) == static_cast<double>(i);
    return step_->read("y").max().item<float>() == static_cast<float>(i * world_.size());
  }

 private:
  World world_;
  bool trains_;
  Graph g_;
  std::optional<Executable> step_;
};

int steps(const std::string& folder, bool trains, int last, int culprit, const std::string& what) {
  using namespace std::chrono_literals;
  if (std::freopen(fmt::format("{}/{}.error", folder, std::getenv("RANK")).c_str(), "w", stderr) ==
      nullptr) {
    return 3;
  }
  WorldOptions options = {.connect = 20s, .silence = 2s};
  if (trains) options.overlap = true, options.bucket_bytes = 1024;
  const World world = World::from_environment(options);
  Step step(world, trains);
  for (int i = 0; i < last + 10; ++i) {
    if (i == last && what == "alone" && world.rank() != culprit) std::this_thread::sleep_for(30s);
    if (i == last && world.rank() == culprit) {
      std::ofstream(folder + "/moment") << i;
      if (what == "kill" || what == "alone") std::raise(SIGKILL);
      if (what == "stop") std::raise(SIGSTOP);
      if (what == "feed") step.take(at::full({7}, 1.0, at::kFloat));
      if (what == "leave") return 0;
      if (what == "sleep") std::this_thread::sleep_for(3s);
    }
    step.take(at::full({1000}, i, at::kFloat));
    if (!step.is_right(i)) return 4;
  }
  return 0;
}

int act(const std::string& folder, const Words& words) {
  const auto number = [&] { return std::stoi(words.at(1)); };
  if (words.at(0) == "meet") {
    const World world = World::from_environment({.connect = std::chrono::seconds(20)});
    say(folder,
        fmt::format("rank {} of {}, {} thread(s)", world.rank(), world.size(), world.threads()));
    return 0;
  }
  if (words[0] == "sum") {
    const World world = World::from_environment({.connect = std::chrono::seconds(20)});
    Graph g("sum");
    g.output("y", all_reduce(g.input("x", f32, {})));
    Executable step = compile(g, cpu_replay(), {.modes = {Mode::evaluate}, .world = world});
    step.evaluate({{"x", at::full({}, world.rank() + 1, at::kFloat)}});
    say(folder, fmt::format("rank {} has {}", world.rank(), step.read("y").item<float>()));
    return 0;
  }
  if (words[0] == "steps" || words[0] == "train") {
    return steps(folder, words[0] == "train", number(), std::stoi(words.at(2)), words.at(3));
  }
  if (words[0] == "only") {
    say(folder, std::to_string(::getpid()));
    await_all(folder);
    if (std::getenv("RANK") == words.at(1))
      return act(folder, Words(words.begin() + 2, words.end()));
    while (true) ::pause();
  }
  if (words[0] == "return") return number();
  if (words[0] == "raise") return std::raise(number());
  if (words[0] == "launch") {
    Words command = {"/proc/self/exe", folder};
    command.insert(command.end(), words.begin() + 2, words.end());
    return distributed::launch(number(), command);
  }
  return 2;
}

}  // namespace

int main(int count, char** arguments) {
  try {
    return act(arguments[1], Words(arguments + 2, arguments + count));
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
