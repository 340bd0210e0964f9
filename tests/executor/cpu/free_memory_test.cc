// Memory that is not to be had: told of before any of it is taken, and where the system refuses.
#include "executor/support/free_memory.h"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>

#include "executor/metronome.h"
#include "graph/ir/error.h"
#include "tests/doctest.h"
#include "tests/error_of.h"
#include "tests/executor/temporary_folder.h"

extern "C" void* __libc_memalign(std::size_t alignment, std::size_t bytes);

namespace {
/// Blocks of this many bytes or more are refused, as by a system that does not overcommit.
std::size_t refused_from = SIZE_MAX;
}  // namespace

extern "C" void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  return bytes >= refused_from ? nullptr : __libc_memalign(alignment, bytes);
}

namespace metronome {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20, kGiB = std::size_t{1} << 30;

/// A system of files in which a test says what there is.
struct System {
  TemporaryFolder folder;
  executor::MemoryFiles files{folder.file("proc"), folder.file("cgroup")};

  void write(const std::string& name, const std::string& text) const {
    const std::string file = folder.file(name);
    std::filesystem::create_directories(std::filesystem::path(file).parent_path());
    write_file(file, text);
  }
  void meminfo(std::size_t available_mib, std::size_t swap_mib) const {
    write("proc/meminfo", fmt::format("MemTotal:       999999999 kB\nMemFree:  1 kB\n"
                                      "MemAvailable:   {} kB\nSwapCached:  5 kB\n"
                                      "SwapTotal:  999999 kB\nSwapFree:  {} kB\n",
                                      available_mib * 1024, swap_mib * 1024));
  }
  /// The bytes in MiB, and what says so, without this folder's name.
  std::string free_memory() const {
    const auto free = executor::free_memory_of_process(files);
    if (!free) return "unknown";
    std::string says = free->says;
    const std::string root = folder.path().string() + "/";
    if (const auto at = says.find(root); at != std::string::npos) says.erase(at, root.size());
    return fmt::format("{} MiB: {}", free->bytes / kMiB, says);
  }
};

TEST_CASE("the machine's free memory") {
  const System s;
  CHECK(s.free_memory() == "unknown");
  s.meminfo(700, 0);
  CHECK(s.free_memory() == "700 MiB: MemAvailable and SwapFree of proc/meminfo");
  s.meminfo(700, 200);
  CHECK(s.free_memory() == "900 MiB: MemAvailable and SwapFree of proc/meminfo");
}

TEST_CASE("control groups of version 2: the tightest of the process's own and those around it") {
  const System s;
  s.meminfo(4000, 0);
  s.write("proc/self/cgroup", "0::/outer/inner\n");
  s.write("cgroup/outer/inner/memory.max", "max\n");
  s.write("cgroup/outer/inner/memory.current", fmt::format("{}\n", 50 * kMiB));
  CHECK(s.free_memory() == "4000 MiB: MemAvailable and SwapFree of proc/meminfo");
  s.write("cgroup/outer/memory.max", fmt::format("{}\n", 1000 * kMiB));
  s.write("cgroup/outer/memory.current", fmt::format("{}\n", 700 * kMiB));
  CHECK(s.free_memory() == "300 MiB: cgroup/outer/memory.max");
  // Pages of files make way.
  s.write("cgroup/outer/memory.stat",
          fmt::format("anon 1\nfile 5\ninactive_file {}\nactive_file {}\ninactive_file_x 9\n",
                      100 * kMiB, 200 * kMiB));
  CHECK(s.free_memory() == "600 MiB: cgroup/outer/memory.max");
  s.write("cgroup/outer/inner/memory.max", fmt::format("{}\n", 60 * kMiB));
  CHECK(s.free_memory() == "10 MiB: cgroup/outer/inner/memory.max");
  s.write("cgroup/outer/inner/memory.current", fmt::format("{}\n", 70 * kMiB));
  CHECK(s.free_memory() == "0 MiB: cgroup/outer/inner/memory.max");
}

TEST_CASE("control groups of version 1, and a container that sees its own group as the root") {
  const System s;
  s.write("proc/self/cgroup", "5:cpu,cpuacct:/a\n4:hugetlb,memory:/host/name\n0::/\n");
  s.write("cgroup/memory/memory.limit_in_bytes", fmt::format("{}\n", 512 * kMiB));
  s.write("cgroup/memory/memory.usage_in_bytes", fmt::format("{}\n", 400 * kMiB));
  s.write("cgroup/memory/memory.stat",
          fmt::format("inactive_file 7\ntotal_inactive_file {}\ntotal_active_file {}\n", kMiB,
                      2 * kMiB));
  CHECK(s.free_memory() == "115 MiB: cgroup/memory/memory.limit_in_bytes");
  s.write("cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");  // none
  s.meminfo(90, 0);
  CHECK(s.free_memory() == "90 MiB: MemAvailable and SwapFree of proc/meminfo");
  // Version 2 beside it, in a folder of its own.
  s.write("cgroup/unified/memory.max", fmt::format("{}\n", 20 * kMiB));
  s.write("cgroup/unified/memory.current", "0\n");
  CHECK(s.free_memory() == "20 MiB: cgroup/unified/memory.max");
}

/// A limit of this process, for as long as it lives.
class Limit {
 public:
  Limit(int resource, std::size_t bytes) : resource_(resource) {
    ::getrlimit(static_cast<__rlimit_resource>(resource_), &old_);
    set({bytes, old_.rlim_max});
  }
  ~Limit() { set(old_); }
  Limit(const Limit&) = delete;
  Limit& operator=(const Limit&) = delete;

 private:
  void set(const ::rlimit& limit) const {
    ::setrlimit(static_cast<__rlimit_resource>(resource_), &limit);
  }
  int resource_;
  ::rlimit old_ = {};
};

TEST_CASE("limits of the process, less what it holds") {
  const System s;
  s.write("proc/self/status", "Name: x\nVmPeak:  9 kB\nVmSize:\t 2048 kB\nVmData:\t 1024 kB\n");
  CHECK(s.free_memory() == "unknown");
  {
    const Limit limit(RLIMIT_DATA, 4096 * kGiB);
    CHECK(s.free_memory() == "4194303 MiB: RLIMIT_DATA (ulimit -d)");
    const Limit tighter(RLIMIT_AS, 2048 * kGiB);
    CHECK(s.free_memory() == "2097150 MiB: RLIMIT_AS (ulimit -v)");
  }
  CHECK(s.free_memory() == "unknown");
}

TEST_CASE("bytes as text") {
  CHECK(executor::in_units(0) == "0 bytes");
  CHECK(executor::in_units(1) == "1 byte");
  CHECK(executor::in_units(1023) == "1023 bytes");
  CHECK(executor::in_units(1536) == "1.5 KiB");
  CHECK(executor::in_units(3 * kGiB / 2) == "1.5 GiB");
  CHECK(executor::in_units(SIZE_MAX) == "16.0 EiB");
}

TEST_CASE("what is needed is compared with what there is") {
  const executor::Needs needs{{{"arena", 3 * kGiB}, {"storages", kGiB}},
                              {{"f32[9] \"a\"", 36},
                               {"f32[8] \"w\", a parameter", kGiB},
                               {"f32[9] \"b\"", 2 * kGiB},
                               {"f32[9] \"b\"", 2 * kGiB}}};
  executor::require_memory("net", needs, std::nullopt);
  executor::require_memory("net", needs, executor::FreeMemory{4 * kGiB, "a test"});
  CHECK_THROWS_WITH_AS(
      executor::require_memory("net", needs, executor::FreeMemory{4 * kGiB - 1, "a test"}),
      "graph \"net\" needs 4.0 GiB of memory, but this process can take 4.0 GiB "
      "more, says a test\n"
      "  3.0 GiB  arena\n"
      "  1.0 GiB  storages\n"
      "the biggest values are\n"
      "   2.0 GiB  f32[9] \"b\"\n"
      "   1.0 GiB  f32[8] \"w\", a parameter\n"
      "  36 bytes  f32[9] \"a\"\n"
      "give it smaller shapes or a smaller batch, or more memory",
      RunError);
  const executor::Needs endless{{{"arena", SIZE_MAX - 1}, {"inputs", SIZE_MAX}}, {}};
  CHECK_THROWS_WITH_AS(
      executor::require_memory("net", endless, executor::FreeMemory{SIZE_MAX - 1, "a test"}),
      "graph \"net\" needs 16.0 EiB of memory, but this process can take 16.0 EiB "
      "more, says a test\n"
      "  16.0 EiB  arena\n"
      "  16.0 EiB  inputs\n"
      "give it smaller shapes or a smaller batch, or more memory",
      RunError);
}

/// Returns compile's refusal, without how much memory there is and who says so.
std::string refusal(const Graph& graph, const Target& target, Tune tune = Tune::off) {
  CompileOptions options;
  options.tune = tune;
  options.tuning_file = "/nowhere/at all";
  options.threads = 1;
  const std::string error = tests::error_of<RunError>([&] { compile(graph, target, options); });
  return std::regex_replace(error, std::regex("can take [^\n]*"), "can take ...");
}

/// y = cumsum(w x); two blocks of `rows` f32 beside the input.
Graph wide(std::int64_t rows) {
  Graph g("wide");
  const Value x = g.input("x", f32, {rows});
  g.output("y", cumsum(x * g.parameter("w", Type{f32, {1}}, ones()), 0));
  return g;
}

constexpr std::int64_t kTerabytes = std::int64_t{1} << 40;  // elements, of 4 bytes

TEST_CASE("an input that no machine holds is refused before anything is taken") {
  for (const Target& target : {cpu_replay(), stepwise(), eager(), null()}) {
    CHECK(refusal(wide(kTerabytes), target) ==
          "graph \"wide\" needs 4.0 TiB of memory, but this process can take ...\n"
          "  28 bytes  storages\n"
          "   4.0 TiB  inputs\n"
          "the biggest values are\n"
          "  4.0 TiB  f32[1099511627776] \"x\", an input\n"
          "  8 bytes  i64[] \"seed\", a counter\n"
          "  8 bytes  i64[] \"replay\", a counter\n"
          "  8 bytes  i64[] \"update\", a counter\n"
          "  4 bytes  f32[1] \"w\", a parameter\n"
          "give it smaller shapes or a smaller batch, or more memory");
  }
}

TEST_CASE("a value that no machine holds is refused before kernels are timed on it") {
  Graph g("outer");
  const Value x = g.input("x", f32, {1 << 20});
  g.output("y", mean(exp(x.reshape({1 << 20, 1})) * x));
  for (const Target& target : {cpu_replay(), stepwise(), eager()}) {
    CHECK(
        refusal(g, target, Tune::measure)
            .starts_with("graph \"outer\" needs 4.0 TiB of memory, but this process can take ...\n"
                         "  4.0 TiB  its biggest value alone\n"
                         "the biggest values are\n"
                         "  4.0 TiB  f32[1048576, 1048576] \"mul\"\n"));
  }
}

/// The most that this process may hold: what it holds, and so much.
std::size_t held_and(std::size_t more) {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) + more;
}

TEST_CASE("a limit of the process is kept: the plan is refused, and a smaller one compiles") {
  compile(wide(8), cpu_replay(), {.threads = 1, .tune = Tune::off});
  const std::int64_t rows = 16 << 20;  // 64 MiB each
  const Limit limit(RLIMIT_AS, held_and(150 * kMiB));
  CHECK(refusal(wide(rows), cpu_replay()) ==
        "graph \"wide\" needs 192.0 MiB of memory, but this process can take ...\n"
        "  64.0 MiB  arena\n"
        "  64.0 MiB  values to read\n"
        "  28 bytes  storages\n"
        "  64.0 MiB  inputs\n"
        "the biggest values are\n"
        "  64.0 MiB  f32[16777216] \"mul\"\n"
        "  64.0 MiB  f32[16777216] \"x\", an input\n"
        "   8 bytes  i64[] \"seed\", a counter\n"
        "   8 bytes  i64[] \"replay\", a counter\n"
        "   8 bytes  i64[] \"update\", a counter\n"
        "give it smaller shapes or a smaller batch, or more memory");
  CHECK(refusal(wide(rows), stepwise())
            .starts_with("graph \"wide\" needs 192.0 MiB of memory, but this process can take ...\n"
                         "  128.0 MiB  values, each in memory of its own\n"
                         "   28 bytes  storages\n"
                         "   64.0 MiB  inputs\n"));
  CHECK(refusal(wide(1 << 20), cpu_replay()) == "nothing");
}

TEST_CASE("memory that the system refuses after all") {
  for (const Target& target : {cpu_replay(), stepwise()}) {
    refused_from = kMiB;
    const std::string message = refusal(wide(1 << 20), target);
    refused_from = SIZE_MAX;
    CHECK(message.starts_with(
        "graph \"wide\" needs 12.0 MiB of memory, but the system refused it\n"));
    CHECK(message.ends_with("\ngive it smaller shapes or a smaller batch, or more memory"));
  }
}

}  // namespace
}  // namespace metronome
