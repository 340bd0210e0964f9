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
            .own_seconds = [this] { return own; },
            .now = [this] { return now; },
            .ticks_a_second = 100};
  }
};

TEST_CASE("others' share is what the cores did, less what this process did") {
  Machine machine;
  LoadMeter meter(machine.sources());
  CHECK(meter.share() == 0);
  machine.now += 2, machine.own += 1;
  machine.user[0] += 100, machine.user[1] += 80;
  machine.user[2] += 200;  // a core that is not this process's
  machine.steal += 40;     // what a hypervisor gives to other machines is no program here
  CHECK(meter.share() == doctest::Approx((1.0 + 0.8 - 1.0) / (2 * 2)));
  // Too soon: the last answer.
  machine.now += 0.05, machine.user[0] += 500;
  CHECK(meter.share() == doctest::Approx(0.2));
  // All of it was its own; a tick may be counted late.
  machine.now += 9.95, machine.own += 5.001;
  CHECK(meter.share() == 0);
  machine.now += 1, machine.user[0] += 1000, machine.user[1] += 1000;
  CHECK(meter.share() == 1);
  // The load of the last hour says nothing of now.
  machine.now += 3600, machine.user[0] += 360000;
  CHECK(meter.share() == 0);
  machine.now += 1, machine.user[0] += 50;
  CHECK(meter.share() == doctest::Approx(0.25));
}

TEST_CASE("where the system tells nothing, nobody is busy") {
  Machine machine;
  machine.text = "no such file";
  LoadMeter meter(machine.sources());
  machine.now += 5;
  CHECK(meter.share() == 0);
  LoadMeter real;
  const double share = real.share();
  CHECK(share >= 0);
  CHECK(share <= 1);
}

}  // namespace
}  // namespace metronome::executor::load_test
