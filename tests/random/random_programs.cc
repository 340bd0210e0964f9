// random_programs: builds, runs and compares random programs, as many as are asked for.
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>

#include "tests/random/campaign.h"
#include "tests/random/vocabulary.h"

namespace {

using namespace metronome;
using namespace metronome::random_programs;

// The program that runs now, for the handler of a crash.
char now[80] = "";

void crashed(int signal) {
  const auto ignored = write(STDERR_FILENO, now, sizeof now);
  (void)ignored;
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

/// Checks programs of seeds from `first` on; prints failures and progress.
class Campaign {
 public:
  Campaign(std::uint32_t first, int most_failures) : first_(first), most_failures_(most_failures) {}

  void run(std::int64_t count, Kind kind) {
    const char* what = kind == Kind::mistaken ? "mistaken"
                       : kind == Kind::misfed ? "wrongly fed"
                                              : "valid";
    for (std::int64_t i = 0; i < count && failures_ < most_failures_; ++i) {
      const std::uint32_t seed = first_ + static_cast<std::uint32_t>(i);
      std::snprintf(now, sizeof now, "the %s program of seed %u crashed\n", what, seed);
      if (const auto failure = check_seed(seed, kind, &tally_)) {
        ++failures_;
        fmt::print("{}\n", describe_failure(seed, kind, *failure));
      }
      if (elapsed() > said_ + 10) {
        said_ = elapsed();
        fmt::print("{:4.0f} s: {} of {} {} programs{}, {} failed\n", said_, i + 1, count, what,
                   kind == Kind::on_device ? " on the device" : "", failures_);
        std::fflush(stdout);
      }
    }
  }

  /// Plants each mistake, or only the one of index `only`, at least `count` times.
  void run_mistakes(std::int64_t count, std::int64_t only) {
    const auto all = static_cast<std::int64_t>(mistakes().size());
    for (std::int64_t i = 0; i < all && failures_ < most_failures_; ++i) {
      if (only >= 0 && i != only) continue;
      std::snprintf(now, sizeof now, "a program with mistake %d crashed\n", static_cast<int>(i));
      if (const auto failure = check_mistake(static_cast<std::size_t>(i), first_, count, &tally_)) {
        ++failures_;
        fmt::print("{}\n", *failure);
      }
    }
  }

  int failures() const { return failures_; }
  void report() const {
    fmt::print("{}{:.0f} s, {} failed\n", to_string(tally_), elapsed(), failures_);
  }

 private:
  double elapsed() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

  std::uint32_t first_;
  int most_failures_;
  int failures_ = 0;
  double said_ = 0;
  Tally tally_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Checks random programs: replay, stepwise and eager agree, gradients are slopes, "
      "mistakes are named.",
      "random_programs");
  std::int64_t programs = 10'000, mistaken = -1, on_device = 0, misfed = 0;
  std::int64_t each_mistake = 0, only = -1;
  std::uint32_t seed = 1;
  int failures = 5;
  bool print = false;
  app.add_option("--programs", programs, "valid programs (10000)");
  app.add_option("--mistaken", mistaken, "programs with a mistake (a tenth of the valid ones)");
  app.add_option("--each-mistake", each_mistake, "programs with each of the mistakes (0)");
  app.add_option("--mistake", only, "of these only the mistake of this index (all)");
  app.add_option("--on-device", on_device,
                 "valid programs by conditional graph nodes, on a device made of the host (0)");
  app.add_option("--misfed", misfed,
                 "programs that something wrong is fed to, told of on all targets (0)");
  app.add_option("--seed", seed, "the first seed (1)");
  app.add_option("--failures", failures, "stop after so many (5)");
  app.add_flag("--print", print, "print the programs and check nothing");
  CLI11_PARSE(app, argc, argv);
  if (mistaken < 0) mistaken = programs / 10;
  if (print) {
    for (std::int64_t i = 0; i < std::max(programs, mistaken); ++i) {
      const auto s = seed + static_cast<std::uint32_t>(i);
      if (i < programs) fmt::print("seed {}:\n{}\n", s, text_of(generate(s)));
      if (i < mistaken) fmt::print("seed {}:\n{}\n", s, text_of(generate_mistaken(s).program));
    }
    return 0;
  }
  at::set_num_threads(1);
  for (const int signal : {SIGSEGV, SIGABRT, SIGFPE, SIGILL, SIGBUS}) std::signal(signal, crashed);
  Campaign campaign(seed, failures);
  campaign.run(programs, Kind::valid);
  campaign.run(mistaken, Kind::mistaken);
  campaign.run_mistakes(each_mistake, only);
  campaign.run(on_device, Kind::on_device);
  campaign.run(misfed, Kind::misfed);
  campaign.report();
  return campaign.failures() == 0 ? 0 : 1;
}
