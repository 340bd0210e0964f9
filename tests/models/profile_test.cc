#include "models/commands/profile.h"

#include <fmt/format.h>

#include <string>

#include "tests/doctest.h"

namespace {

using metronome::commands::Profile;

// Two steps; one branch of two ran in each.
Profile two_steps() {
  return {"2 threads",
          2,
          {{"linear \"linear\" (a.cc:1)", 6, 2},
           {"exp \"choose/0/exp\" (a.cc:2)", 1, 1},
           {"tanh \"choose/1/tanh\" (a.cc:3)", 3, 1},
           {"linear \"linear_1\" (a.cc:4)", 8, 2},
           {"store_reads", 2, 2}}};
}

TEST_CASE("a profile is shown by kind and by kernel, each longest first, a step") {
  CHECK(to_string(two_steps()) ==
        "profile of 2 steps on 2 threads: 10.0 us a step in kernels, by the host's clock\n"
        "   us a step    share     runs  kernel\n"
        "         7.0   70.0 %      2.0  linear\n"
        "         1.5   15.0 %      0.5  tanh\n"
        "         1.0   10.0 %      1.0  store_reads\n"
        "         0.5    5.0 %      0.5  exp\n"
        "the longest\n"
        "         4.0   40.0 %      1.0  linear \"linear_1\" (a.cc:4)\n"
        "         3.0   30.0 %      1.0  linear \"linear\" (a.cc:1)\n"
        "         1.5   15.0 %      0.5  tanh \"choose/1/tanh\" (a.cc:3)\n"
        "         1.0   10.0 %      1.0  store_reads\n"
        "         0.5    5.0 %      0.5  exp \"choose/0/exp\" (a.cc:2)\n");
}

TEST_CASE("only the ten longest are shown, and all are written, in the order in which they ran") {
  Profile profile{"a GPU", 1, {}};
  for (int i = 0; i < 12; ++i) {
    profile.kernels.push_back({fmt::format("exp \"exp_{}\" (a.cc:1)", i), 1.0 + i, 1});
  }
  const std::string text = to_string(profile), json = to_json(profile);
  for (int i = 0; i < 12; ++i) {
    const std::string name = fmt::format("exp_{}\"", i);
    CAPTURE(name);
    CHECK((text.find(name) != std::string::npos) == (i >= 2));
    CHECK(json.find(fmt::format("exp_{}\\\"", i)) != std::string::npos);
  }
}

TEST_CASE("kernels that were timed in several ways are counted by them") {
  Profile profile{"a GPU", 1, {{"exp", 1, 1}, {"tanh", 1, 1}, {"log", 1, 1}}};
  for (auto& kernel : profile.kernels) kernel.by = metronome::TimedBy::copies;
  const auto first_line = [&] {
    return to_string(profile).substr(0, to_string(profile).find('\n'));
  };
  CHECK(first_line() ==
        "profile of 1 steps on a GPU: 3.0 us a step in kernels, by copies in a graph");
  profile.kernels[1].by = metronome::TimedBy::launches;
  CHECK(first_line() ==
        "profile of 1 steps on a GPU: 3.0 us a step in kernels, by copies in a graph (2), launches "
        "(1)");
}

TEST_CASE("what is written has every kernel, its microseconds and its runs a step") {
  Profile profile = two_steps();
  profile.kernels.resize(2);
  profile.kernels[1].by = metronome::TimedBy::launches;
  CHECK(to_json(profile) ==
        "{\n"
        " \"steps\": 2,\n"
        " \"kernels\": [\n"
        "  {\n"
        "   \"kernel\": \"linear \\\"linear\\\" (a.cc:1)\",\n"
        "   \"us\": 3.0,\n"
        "   \"runs\": 1.0,\n"
        "   \"timed_by\": \"the host's clock\"\n"
        "  },\n"
        "  {\n"
        "   \"kernel\": \"exp \\\"choose/0/exp\\\" (a.cc:2)\",\n"
        "   \"us\": 0.5,\n"
        "   \"runs\": 0.5,\n"
        "   \"timed_by\": \"launches\"\n"
        "  }\n"
        " ]\n"
        "}\n");
}

}  // namespace
