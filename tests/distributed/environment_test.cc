// The environment's words on ranks, and each way in which they may be wrong.
#include "distributed/store/environment.h"

#include <map>
#include <string>
#include <vector>

#include "graph/ir/error.h"
#include "tests/doctest.h"
#include "tests/error_of.h"

namespace metronome::distributed::environment_test {
namespace {

using Variables = std::map<std::string, std::string>;

Environment read(const Variables& variables) {
  return read_environment([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

std::string refusal(const Variables& variables) {
  return tests::error_of<RunError>([&] { read(variables); });
}

/// As torchrun sets them for one of eight ranks on two machines.
Variables torchrun() {
  return {{"RANK", "5"},
          {"WORLD_SIZE", "8"},
          {"LOCAL_RANK", "1"},
          {"LOCAL_WORLD_SIZE", "4"},
          {"MASTER_ADDR", "10.0.0.1"},
          {"MASTER_PORT", "29500"},
          {"TORCHELASTIC_RESTART_COUNT", "2"},
          {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
}

Variables but(const std::string& name, const std::string& value) {
  Variables variables = torchrun();
  variables[name] = value;
  return variables;
}

Variables without(const std::vector<std::string>& names) {
  Variables variables = torchrun();
  for (const std::string& name : names) variables.erase(name);
  return variables;
}

TEST_CASE("a rank is as torchrun says it") {
  const Environment found = read(torchrun());
  CHECK(found.rank == 5);
  CHECK(found.size == 8);
  CHECK(found.local_rank == 1);
  CHECK(found.local_size == 4);
  CHECK(found.host == "10.0.0.1");
  CHECK(found.port == 29500);
  CHECK(found.restart == 2);
  CHECK(found.agent_store);
}

TEST_CASE("without RANK there is one rank, whatever else the machine sets") {
  const Environment found = read({{"MASTER_ADDR", "10.0.0.1"}, {"OMP_NUM_THREADS", "1"}});
  CHECK(found.rank == 0);
  CHECK(found.size == 1);
}

TEST_CASE("ranks that were set by hand need neither local ranks nor an agent") {
  const Environment found =
      read(without({"LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RESTART_COUNT",
                    "TORCHELASTIC_USE_AGENT_STORE"}));
  CHECK(found.local_rank == 5);
  CHECK(found.local_size == 8);
  CHECK(found.restart == 0);
  CHECK_FALSE(found.agent_store);
}

TEST_CASE("each wrong value is refused, with the value") {
  const std::string way_out = ": torchrun sets it; unset RANK to run one rank alone";
  struct Wrong {
    Variables variables;
    std::string refused;
  };
  const Wrong all[] = {
      // Missing.
      {without({"WORLD_SIZE"}), "RANK is set, but WORLD_SIZE is not" + way_out},
      {without({"LOCAL_RANK"}), "RANK is set, but LOCAL_RANK is not" + way_out},
      {without({"LOCAL_WORLD_SIZE"}), "RANK is set, but LOCAL_WORLD_SIZE is not" + way_out},
      {without({"MASTER_ADDR"}), "RANK is set, but MASTER_ADDR is not" + way_out},
      {without({"MASTER_PORT"}), "RANK is set, but MASTER_PORT is not" + way_out},
      {but("MASTER_ADDR", ""), "RANK is set, but MASTER_ADDR is not" + way_out},
      {{{"WORLD_SIZE", "8"}},
       "WORLD_SIZE is 8, but RANK is not set: set both, or neither to run one rank alone"},
      {{{"LOCAL_RANK", "1"}},
       "LOCAL_RANK is 1, but RANK is not set: set both, or neither to run one rank alone"},
      {{{"LOCAL_WORLD_SIZE", "2"}},
       "LOCAL_WORLD_SIZE is 2, but RANK is not set: set both, or neither to run one rank alone"},
      // Malformed.
      {but("RANK", "first"), "RANK is \"first\": it must be a whole number from 0"},
      {but("RANK", "-1"), "RANK is \"-1\": it must be a whole number from 0"},
      {but("RANK", "1.0"), "RANK is \"1.0\": it must be a whole number from 0"},
      {but("RANK", " 1"), "RANK is \" 1\": it must be a whole number from 0"},
      {but("RANK", "99999999999"), "RANK is \"99999999999\": it must be a whole number from 0"},
      {but("WORLD_SIZE", "0"), "WORLD_SIZE is \"0\": it must be a whole number from 1"},
      {but("LOCAL_RANK", "x"), "LOCAL_RANK is \"x\": it must be a whole number from 0"},
      {but("LOCAL_WORLD_SIZE", "0"), "LOCAL_WORLD_SIZE is \"0\": it must be a whole number from 1"},
      {but("MASTER_PORT", "0"), "MASTER_PORT is \"0\": it must be a whole number from 1 to 65535"},
      {but("MASTER_PORT", "65536"),
       "MASTER_PORT is \"65536\": it must be a whole number from 1 to 65535"},
      {but("MASTER_PORT", "http"),
       "MASTER_PORT is \"http\": it must be a whole number from 1 to 65535"},
      {but("TORCHELASTIC_RESTART_COUNT", "once"),
       "TORCHELASTIC_RESTART_COUNT is \"once\": it must be a whole number from 0"},
      {but("TORCHELASTIC_USE_AGENT_STORE", "yes"),
       "TORCHELASTIC_USE_AGENT_STORE is \"yes\": it must be True or False"},
      // Contradictory.
      {but("RANK", "8"), "RANK is 8, but WORLD_SIZE is 8: ranks are 0 to 7"},
      {but("LOCAL_WORLD_SIZE", "9"), "LOCAL_WORLD_SIZE is 9, more than WORLD_SIZE, which is 8"},
      {but("LOCAL_RANK", "4"),
       "LOCAL_RANK is 4, but LOCAL_WORLD_SIZE is 4: local ranks are 0 to 3"},
  };
  for (const Wrong& wrong : all) CHECK(refusal(wrong.variables) == wrong.refused);
}

}  // namespace
}  // namespace metronome::distributed::environment_test
