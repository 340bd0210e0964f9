// Counts every allocation of the process while steps are replayed, by interposing the C library's
// allocating functions: this program's own definitions come first for all libraries.
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <fmt/format.h>
#include <omp.h>

#include <oneapi/dnnl/dnnl.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "benchmarks/batches.h"
#include "models/models.h"
#include "tests/doctest.h"

extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* pointer, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);
}

namespace {

// Return addresses of one allocation, innermost first.
struct Event {
  std::array<void*, 16> frames;
  int depth = 0;
};

constexpr std::size_t kMostEvents = 1 << 14;
std::array<Event, kMostEvents> events;
std::atomic<std::size_t> event_count = 0;
std::atomic<bool> counting = false;
thread_local bool inside = false;  // backtrace may allocate itself

[[gnu::noinline]] void note() {
  if (!counting.load(std::memory_order_relaxed) || inside) return;
  inside = true;
  const std::size_t index = event_count.fetch_add(1);
  if (index < kMostEvents) {
    Event& event = events[index];
    event.depth = backtrace(event.frames.data(), static_cast<int>(event.frames.size()));
  }
  inside = false;
}

}  // namespace

extern "C" {
[[gnu::noinline]] void* malloc(std::size_t bytes) {
  note();
  return __libc_malloc(bytes);
}
[[gnu::noinline]] void* calloc(std::size_t count, std::size_t bytes) {
  note();
  return __libc_calloc(count, bytes);
}
[[gnu::noinline]] void* realloc(void* pointer, std::size_t bytes) {
  note();
  return __libc_realloc(pointer, bytes);
}
[[gnu::noinline]] void* memalign(std::size_t alignment, std::size_t bytes) {
  note();
  return __libc_memalign(alignment, bytes);
}
[[gnu::noinline]] void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  note();
  return __libc_memalign(alignment, bytes);
}
[[gnu::noinline]] int posix_memalign(void** out, std::size_t alignment, std::size_t bytes) {
  note();
  *out = __libc_memalign(alignment, bytes);
  return *out == nullptr ? ENOMEM : 0;
}
}

namespace {

using namespace metronome;
using models::Scale;

// Allocations by the library that asked for them.
using Counts = std::map<std::string, std::size_t>;

std::string library_of(const Event& event) {
  Dl_info own = {};
  dladdr(reinterpret_cast<void*>(&note), &own);
  // The first two frames are `note` and the interposed function.
  for (int i = 2; i < event.depth; ++i) {
    Dl_info info = {};
    if (dladdr(event.frames[i], &info) == 0) continue;
    if (info.dli_fbase == own.dli_fbase) return "metronome";
    const char* slash = std::strrchr(info.dli_fname, '/');
    const std::string file = slash == nullptr ? info.dli_fname : slash + 1;
    const bool on_behalf = file.starts_with("libstdc++") || file.starts_with("libc.so") ||
                           file.starts_with("ld-linux");
    if (!on_behalf) return file.substr(0, file.find(".so"));
  }
  return "unknown";
}

template <class Body>
Counts allocations(Body body) {
  Event warm_up;  // the first backtrace loads libgcc
  warm_up.depth = backtrace(warm_up.frames.data(), static_cast<int>(warm_up.frames.size()));
  event_count = 0;
  counting = true;
  body();
  counting = false;
  Counts counts;
  const std::size_t seen = event_count;
  for (std::size_t i = 0; i < std::min(seen, kMostEvents); ++i) ++counts[library_of(events[i])];
  if (seen > kMostEvents) counts["beyond the buffer"] = seen - kMostEvents;
  return counts;
}

std::string text(const Counts& counts) {
  std::string line;
  for (const auto& [library, count] : counts) line += fmt::format("{}: {}  ", library, count);
  return line;
}

// Replays with feeds filled in place and the loss read, after a few steps that warm up.
Counts replay(const models::ModelEntry& entry, Scale scale, int steps, CompileOptions options) {
  at::set_num_threads(options.threads);
  const models::Model model = entry.make(scale, f32);
  const benchmarks::Batches batches(model, 2);
  Executable step = compile(model.graph, cpu_replay(), options);
  struct Copied {
    void* to;
    std::array<const void*, 2> from;
    std::size_t bytes;
  };
  std::vector<Copied> copied;
  for (std::size_t k = 0; k < model.inputs.size(); ++k) {
    const at::Tensor to = step.input(model.inputs[k]);
    copied.push_back(
        {to.data_ptr(),
         {batches.of_step(0)[k].tensor().data_ptr(), batches.of_step(1)[k].tensor().data_ptr()},
         to.nbytes()});
  }
  const Value loss = model.graph.loss();
  double sum = 0;
  const auto run = [&](int count) {
    for (int i = 0; i < count; ++i) {
      for (const Copied& c : copied) std::memcpy(c.to, c.from[i % 2], c.bytes);
      step.run();
      sum += step.read_scalar(loss);
    }
  };
  run(3);
  Counts counts = allocations([&] { run(steps); });
  CHECK(sum > 0);
  return counts;
}

TEST_CASE("the counter sees allocations and knows whose they are") {
  const Counts own = allocations([] { delete new volatile int(1); });
  CHECK(text(own) == "metronome: 1  ");
  const Counts libtorch = allocations([] { const at::Tensor t = at::empty({100}); });
  CHECK(libtorch.contains("libc10"));
}

TEST_CASE("at small scale 100 replays allocate nothing at all") {
  for (const models::ModelEntry& entry : models::all_models()) {
    CAPTURE(entry.name);
    CHECK(text(replay(entry, Scale::small, 100, {.threads = 1, .tune = Tune::off})) == "");
  }
}

TEST_CASE("feeding 64 inputs, by value or by name, and reading a number allocate nothing") {
  constexpr int kInputs = 64;
  for (const Target& target : {cpu_replay(), stepwise()}) {
    Graph g("wide");
    Values xs;
    std::vector<Feed> by_value, by_name;
    for (int i = 0; i < kInputs; ++i) {
      const std::string name = fmt::format("an input whose name is long {}", i);
      xs.push_back(g.input(name, f32, {4}));
      by_value.push_back({xs.back(), at::full({4}, static_cast<double>(i))});
      by_name.push_back(
          {name, at::full({4}, static_cast<double>(i)).reshape({2, 2}).t().reshape({4})});
    }
    const Value total = sum(concat(xs, 0));
    g.output("total", total);
    Executable step = compile(g, target, {.threads = 1, .tune = Tune::off});
    step.input(xs[0]);  // one whose memory is handed out
    double last = 0;
    const auto run = [&] {
      step.run(by_value);
      step.run(by_name);
      step.run();
      last = step.read_scalar(total);
    };
    run();
    CHECK(text(allocations([&] {
            for (int i = 0; i < 10; ++i) run();
          })) == "");
    CHECK(last == 4.0 * kInputs * (kInputs - 1) / 2);
  }
}

struct Product {
  std::int64_t m, k, n;
  bool bias = false;
};

// The products of one step of `mlp` at full scale, without what adds gradients up.
std::vector<Product> products_of_mlp() {
  constexpr std::int64_t kRows = 256;
  constexpr std::array<std::int64_t, 6> kWidths = {1024, 2048, 2048, 2048, 2048, 1024};
  std::vector<Product> products;
  for (std::size_t i = 0; i + 1 < kWidths.size(); ++i) {
    const std::int64_t in = kWidths[i], out = kWidths[i + 1];
    products.push_back({kRows, in, out, true});
    products.push_back({in, kRows, out});             // the weight's gradient
    if (i > 0) products.push_back({kRows, out, in});  // the input's gradient
  }
  return products;
}

// How often oneDNN allocates in one call on this processor, by two threads and with a scratchpad
// of the caller's: the most over operands as they lie and transposed.
std::size_t allocated_by_onednn(const Product& p) {
  using dnnl::memory;
  omp_set_num_threads(2);
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  const dnnl::stream stream(engine);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const auto matrix = [](std::int64_t rows, std::int64_t columns, bool transposed) {
    return memory::desc({rows, columns}, memory::data_type::f32,
                        transposed ? memory::dims{1, rows} : memory::dims{columns, 1});
  };
  std::size_t most = 0;
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      const memory::desc a = matrix(p.m, p.k, transpose_a), b = matrix(p.k, p.n, transpose_b),
                         bias = matrix(1, p.n, false), c = matrix(p.m, p.n, false);
      const dnnl::matmul::primitive_desc description =
          p.bias ? dnnl::matmul::primitive_desc(engine, a, b, bias, c, attributes)
                 : dnnl::matmul::primitive_desc(engine, a, b, c, attributes);
      const dnnl::matmul primitive(description);
      std::vector<memory> memories;
      std::vector<dnnl_exec_arg_t> arguments;
      const auto add = [&](int name, const memory::desc& desc) {
        memories.emplace_back(desc, engine);
        std::memset(memories.back().get_data_handle(), 0, desc.get_size());
        arguments.push_back({name, memories.back().get()});
      };
      add(DNNL_ARG_SRC, a);
      add(DNNL_ARG_WEIGHTS, b);
      if (p.bias) add(DNNL_ARG_BIAS, bias);
      add(DNNL_ARG_DST, c);
      add(DNNL_ARG_SCRATCHPAD, description.scratchpad_desc());
      const auto execute = [&] {
        dnnl_primitive_execute(primitive.get(), stream.get(), static_cast<int>(arguments.size()),
                               arguments.data());
      };
      execute();
      std::size_t count = 0;
      for (const auto& [library, seen] : allocations(execute)) count += seen;
      most = std::max(most, count);
    }
  }
  return most;
}

TEST_CASE("at full scale a replay allocates nothing but what libraries do in their own calls") {
  constexpr int kSteps = 3;
  // Measured choices, so that oneDNN runs what it is best at.
  Counts counts = replay(models::find_model("mlp"), Scale::full, kSteps, {.threads = 2});
  for (const auto& [library, count] : counts) {
    fmt::print("mlp at full scale: {:.1f} allocations a step by {}\n",
               static_cast<double>(count) / kSteps, library);
  }
  for (const char* ours : {"metronome", "libtorch_cpu", "libc10", "unknown"}) {
    CAPTURE(ours);
    CHECK(counts[ours] == 0);
  }
  // oneDNN allocates in each call, how often depends on the processor: no more than in calls of
  // its own interface for the same products.
  std::size_t allowed = 0;
  for (const Product& product : products_of_mlp()) allowed += allocated_by_onednn(product);
  fmt::print("mlp at full scale: {} allocations if oneDNN is called directly\n", allowed);
  CHECK(counts["libdnnl"] <= kSteps * allowed);
}

}  // namespace
