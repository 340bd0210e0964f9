// Ranks that meet, each on a thread of its own, over real sockets.
#include "distributed/world/world.h"

#include <c10/util/Flags.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "distributed/store/environment.h"
#include "distributed/store/store.h"
#include "executor/metronome.h"
#include "executor/support/descriptor.h"
#include "graph/ir/error.h"
#include "tests/aten.h"
#include "tests/doctest.h"
#include "tests/error_of.h"

C10_DECLARE_int(caffe2_log_level);

namespace metronome::distributed::world_test {
namespace {

using namespace std::chrono_literals;

/// A port of the loopback, which may listen; closed when it is destroyed.
class Port {
 public:
  explicit Port(bool listening) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    REQUIRE(::bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
    REQUIRE(::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
    if (listening) REQUIRE(::listen(socket_.get(), 8) == 0);
    number = ntohs(address.sin_port);
  }
  int number;

 private:
  executor::Descriptor socket_;
};

int free_port() { return Port(false).number; }

Environment rank(int rank, int size, int port) {
  return {.rank = rank,
          .size = size,
          .local_rank = rank,
          .local_size = size,
          .host = "127.0.0.1",
          .port = port};
}

/// Returns what each rank gets: "rank 0 of 2", or the error.
std::vector<std::string> meet(const std::vector<Environment>& ranks,
                              std::chrono::milliseconds limit = 20s) {
  std::vector<std::string> said(ranks.size());
  std::vector<std::thread> threads;
  // A world that is there stays until all have said something: rank 0's may keep the store.
  std::vector<std::shared_ptr<World>> worlds(ranks.size());
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    threads.emplace_back([&, i] {
      try {
        worlds[i] = std::make_shared<World>(ranks[i], WorldOptions{.connect = limit});
        said[i] = fmt::format("rank {} of {}", worlds[i]->rank(), worlds[i]->size());
      } catch (const RunError& error) {
        said[i] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return said;
}

using Said = std::vector<std::string>;

TEST_CASE("ranks meet at the store that rank 0 keeps") {
  const int port = free_port();
  CHECK(meet({rank(0, 3, port), rank(1, 3, port), rank(2, 3, port)}) ==
        Said{"rank 0 of 3", "rank 1 of 3", "rank 2 of 3"});
}

TEST_CASE("ranks meet over IPv6") {
  Environment first = rank(0, 2, free_port()), second = first;
  second.rank = 1;
  first.host = second.host = "::1";
  CHECK(meet({first, second}) == Said{"rank 0 of 2", "rank 1 of 2"});
}

TEST_CASE("ranks meet at a launcher's store, once for each start") {
  const Store store = Store::serve("127.0.0.1", 0, 10s);
  Environment first = rank(0, 2, store.port()), second = rank(1, 2, store.port());
  for (const int restart : {0, 1}) {
    first.agent_store = second.agent_store = true;
    first.restart = second.restart = restart;
    CHECK(meet({first, second}) == Said{"rank 0 of 2", "rank 1 of 2"});
  }
}

TEST_CASE("a write to a rank that is gone ends no process that has a store") {
  const Store store = Store::serve("127.0.0.1", 0, 10s);
  CHECK(std::raise(SIGPIPE) == 0);
}

/// A step of `y = x w`, trained once on numbers of the rank.
Executable trained(const World& world, Graph& g, int steps) {
  const Value w = g.parameter("w", {f32, {3}}, normal(0, 1));
  g.minimize(mean(square(g.input("x", f32, {3}) * w)), Adam{.lr = 0.1});
  Executable step = compile(g, cpu_replay(), {.threads = 1, .data_parallel = world});
  const at::Tensor x = at::full({3}, world.rank() + 1, at::kFloat);
  for (int i = 0; i < steps; ++i) step.run({{"x", x}});
  return step;
}

TEST_CASE("rank 0 writes and reads checkpoints, and all learn of its failure") {
  ::setenv("TORCH_FR_BUFFER_SIZE", "0", 1);  // not made for ranks that are threads
  const char* temporary = std::getenv("TEST_TMPDIR");
  const std::string file =
      fmt::format("{}/world.safetensors", temporary == nullptr ? "/tmp" : temporary);
  const int port = free_port();
  std::vector<at::Tensor> saved(2), loaded(2), went_on(2), undisturbed(2);
  std::vector<std::string> said(2);
  std::vector<std::thread> threads;
  std::vector<std::shared_ptr<World>> worlds(2);
  for (const int r : {0, 1}) {
    threads.emplace_back([&, r] {
      const auto k = static_cast<std::size_t>(r);
      worlds[k] = std::make_shared<World>(rank(r, 2, port), WorldOptions{.connect = 20s});
      const World& world = *worlds[k];
      Graph first("net"), second("net"), third("net");
      Executable step = trained(world, first, 3);
      world.save(step, file);
      saved[k] = step.get("w").clone();
      Executable other = trained(world, second, 1);
      world.load(other, file);
      loaded[k] = other.get("w").clone();
      const at::Tensor x = at::full({3}, r + 1, at::kFloat);
      for (int i = 0; i < 4; ++i) other.run({{"x", x}});
      went_on[k] = other.get("w").clone();
      undisturbed[k] = trained(world, third, 7).get("w").clone();
      said[k] = tests::error_of<RunError>([&] { world.save(step, "/no/folder/x.safetensors"); });
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(said[0].find("/no/folder") != std::string::npos);
  CHECK(said[1] == said[0]);
  for (const std::size_t k : {0, 1}) {
    CHECK(saved[k].equal(saved[0]));
    CHECK(loaded[k].equal(saved[0]));
    CHECK(went_on[k].equal(undisturbed[0]));
  }
}

TEST_CASE("World without RANK is one rank, and trains as it would alone") {
  const World world(Environment{}, {});
  Graph g("net"), h("net");
  Executable one = trained(world, g, 3);
  CHECK(world.size() == 1);
  CHECK(world.sum(2.5) == 2.5);
  const Value w = h.parameter("w", {f32, {3}}, normal(0, 1));
  h.minimize(mean(square(h.input("x", f32, {3}) * w)), Adam{.lr = 0.1});
  Executable plain = compile(h, cpu_replay(), {.threads = 1});
  for (int i = 0; i < 3; ++i) plain.run({{"x", at::ones({3})}});
  CHECK(plain.get("w").equal(one.get("w")));
}

TEST_CASE("one rank opens no socket") {
  CHECK(meet({rank(0, 1, Port(true).number)}) == Said{"rank 0 of 1"});
}

TEST_CASE("ranks share the machine's cores") {
  const int cores = World(rank(0, 1, 1), {}).threads();
  Environment many = rank(0, 1, 1);
  many.local_size = 2 * cores;
  CHECK(World(many, {}).threads() == 1);
  many.local_size = cores;
  CHECK(World(many, {}).threads() == 1);
}

TEST_CASE("all ranks are told which of them did not come") {
  const int port = free_port();
  const std::string told =
      fmt::format("ranks 1, 3 of 4 did not come to 127.0.0.1:{} within 5 s", port);
  CHECK(meet({rank(0, 4, port), rank(2, 4, port)}, 5s) == Said{told, told});
  const int other = free_port();
  CHECK(meet({rank(0, 2, other)}, 1s) ==
        Said{fmt::format("rank 1 of 2 did not come to 127.0.0.1:{} within 1 s", other)});
}

TEST_CASE("a rank that is there twice, and another count of ranks, are told to all") {
  const int port = free_port();
  Said said = meet({rank(0, 3, port), rank(1, 3, port), rank(1, 3, port)});
  const std::string twice = "rank 1 of 3 is there twice: RANK must differ from process to process";
  CHECK(said == Said{twice, twice, twice});

  const int other = free_port();
  said = meet({rank(0, 3, other), rank(1, 2, other)});
  CHECK(said[0] == said[1]);
  const bool either = said[0] == "rank 1: WORLD_SIZE is 2, but another rank said 3" ||
                      said[0] == "rank 0: WORLD_SIZE is 3, but another rank said 2";
  CHECK_MESSAGE(either, said[0]);
}

TEST_CASE("where nothing listens, or something that is no store, a rank ends within its limit") {
  const int port = free_port();
  const auto begin = std::chrono::steady_clock::now();
  const std::string none = meet({rank(1, 2, port)}, 2s)[0];
  CHECK_MESSAGE(none.starts_with(
                    fmt::format("rank 1 of 2: no store answers at 127.0.0.1:{} within 2 s", port)),
                none);
  CHECK(none.ends_with(" (MASTER_ADDR, MASTER_PORT)"));

  const Port silent(true);
  CHECK(meet({rank(1, 2, silent.number)}, 2s) ==
        Said{fmt::format("rank 1 of 2: what listens at 127.0.0.1:{} is no store of ranks: another "
                         "program may have taken the port (MASTER_ADDR, MASTER_PORT)",
                         silent.number)});
  CHECK(meet({rank(0, 2, silent.number)}, 2s) ==
        Said{fmt::format(
            "rank 0 of 2: no store can listen at 127.0.0.1:{}: the port is taken; choose "
            "another (MASTER_ADDR, MASTER_PORT)",
            silent.number)});
  CHECK(std::chrono::steady_clock::now() - begin < 15s);
}

TEST_CASE("libtorch's level of the log is as before, however many have met at once") {
  const int before = FLAGS_caffe2_log_level;
  const int port = free_port();
  std::vector<Environment> ranks;
  for (int i = 0; i < 6; ++i) ranks.push_back(rank(i, 6, port));
  CHECK(meet(ranks).back() == "rank 5 of 6");
  CHECK(FLAGS_caffe2_log_level == before);
}

TEST_CASE("a store that is gone is told") {
  std::optional<Store> server = Store::serve("127.0.0.1", 0, 10s);
  const int port = server->port();
  const Store client = Store::connect("127.0.0.1", port, 10s);
  client.set("a", "text");
  CHECK(client.get("a") == "text");
  CHECK(client.add("n", 2) == 2);
  CHECK(client.set_if_absent("a", "other") == "text");
  CHECK_FALSE(client.wait({"b"}, 50ms));
  server.reset();
  const std::string said = tests::error_of<RunError>([&] { client.get("a"); });
  CHECK_MESSAGE(said.starts_with(fmt::format("the store at 127.0.0.1:{} is gone: ", port)), said);
}

}  // namespace
}  // namespace metronome::distributed::world_test
