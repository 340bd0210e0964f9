// How busy others keep the cores, from what the system tells.
#include "executor/support/load.h"

#include <fmt/format.h>

#include <string>

#include "tests/doctest.h"

namespace metronome::executor::load_test {
namespace {

struct Machine {
  double now = 100, own = 5;
  double user[3] = {1000, 2000, 3000};  // ticks of each core
  double steal = 0;                     // of the first
  std::string text;                     // in place of these, where there is some
  double waited = 0;                    // seconds, in which others have both cores

  LoadSources sources() {
    return {.stat =
                [this] {
                  if (!text.empty()) return text;
                  std::string all = "cpu  1 2 3 4 5 6 7 8 9 10\n";
                  for (int core = 0; core < 3; ++core) {
                    all += fmt::format("cpu{} {} 0 0 99999 77 0 0 {} 0 0\n", core, user[core],
                                       core == 0 ? steal : 0);
                  }
                  return all + "intr 12 34\nctxt 7\n";
                },
            .may_use = [](int core) { return core < 2; },
            .process_seconds = [this] { return own; },
            .now = [this] { return now; },
            .wait =
                [this](double seconds) {
                  now += seconds, waited += seconds;
                  user[0] += 100 * seconds, user[1] += 100 * seconds;
                },
            .ticks_a_second = 100};
  }
};

TEST_CASE("others' share is what the cores did meanwhile, less what this process did") {
  Machine machine;
  LoadMeter meter(machine.sources());
  machine.now += 3600, machine.user[0] += 360000;  // what was before does not count
  LoadMeter::Sample begin = meter.sample();
  machine.now += 2, machine.own += 1;
  machine.user[0] += 100, machine.user[1] += 80;
  machine.user[2] += 200;  // a core that is not this process's
  machine.steal += 40;     // what a hypervisor gives to other machines is no program here
  CHECK(meter.share_since(begin) == doctest::Approx((1.0 + 0.8 - 1.0) / (2 * 2)));
  // All of it was its own; a tick may be counted late.
  begin = meter.sample();
  machine.now += 20, machine.own += 5.001, machine.user[0] += 500;
  CHECK(meter.share_since(begin) == 0);
  begin = meter.sample();
  machine.now += 1, machine.user[0] += 1000, machine.user[1] += 1000;
  CHECK(meter.share_since(begin) == 1);
  CHECK(machine.waited == 0);
}

TEST_CASE("a time that is too short for ticks is measured with what was just before, or after") {
  Machine machine;
  LoadMeter meter(machine.sources());
  // Nothing was sampled before: it waits, and another program has both cores.
  LoadMeter::Sample begin = meter.sample();
  machine.now += 0.02;
  CHECK(meter.share_since(begin) == doctest::Approx(0.8));
  CHECK(machine.waited == doctest::Approx(0.08));
  // The sample before is 0.15 s old, and the load was in the last 50 ms.
  machine.now += 0.1;
  begin = meter.sample();
  machine.now += 0.05, machine.user[0] += 5, machine.user[1] += 1;
  CHECK(meter.share_since(begin) == doctest::Approx(0.06 / (0.15 * 2)));
  CHECK(machine.waited == doctest::Approx(0.08));
  // The last sample is of another time.
  machine.now += 2;
  begin = meter.sample();
  machine.now += 0.02;
  CHECK(meter.share_since(begin) == doctest::Approx(0.8));
  CHECK(machine.waited == doctest::Approx(0.16));
}

TEST_CASE("where the system tells nothing, nobody is busy") {
  Machine machine;
  machine.text = "no such file";
  LoadMeter meter(machine.sources());
  const LoadMeter::Sample begin = meter.sample();
  machine.now += 5;
  CHECK(meter.share_since(begin) == 0);
  LoadMeter real;
  const double share = real.share_since(real.sample());
  CHECK(share >= 0);
  CHECK(share <= 1);
}

}  // namespace
}  // namespace metronome::executor::load_test
