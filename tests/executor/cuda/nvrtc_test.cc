// Kernels compiled at run time, and the folder that keeps them. No device takes part.
#include "executor/cuda/runtime/nvrtc.h"

#include <doctest/doctest.h>
#include <spdlog/sinks/ostream_sink.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <typeinfo>
#include <vector>

#include "executor/cuda/runtime/code_cache.h"
#include "executor/support/log.h"
#include "graph/ir/error.h"
#include "ops/cuda/commands.h"
#include "ops/own/portable.h"
#include "tests/error_of.h"
#include "tests/executor/temporary_folder.h"
#include "tests/skipped.h"

namespace metronome {
namespace {

#ifdef METRONOME_NO_CUDA

METRONOME_SKIPPED("compiling at run time", METRONOME_NO_CUDA)

#else

const std::string kTwice = R"(#include "ops/kernel/kernel.h"
namespace metronome::cuda {
struct Kernel {
  static constexpr int most_threads = 256;
  const float* x;
  float* y;
  Index count;
  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    for (Index i = first(c); i < count; i += stride(c)) y[i] = 2 * x[i];
  }
};
}  // namespace metronome::cuda
)";

bool is_code(const std::vector<char>& code) {
  const std::string_view bytes(code.data(), code.size());
  return bytes.starts_with(
             "\x7f"
             "ELF") &&
         bytes.find(kGeneratedEntry) != std::string_view::npos;
}

/// Collects the log's lines for as long as it lives.
class Heard {
 public:
  Heard() {
    executor::logger().sinks().push_back(std::make_shared<spdlog::sinks::ostream_sink_st>(text_));
  }
  ~Heard() { executor::logger().sinks().pop_back(); }
  Heard(const Heard&) = delete;
  Heard& operator=(const Heard&) = delete;

  bool says(const std::string& text) const { return text_.str().find(text) != std::string::npos; }
  std::size_t lines() const {
    const std::string text = text_.str();
    return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  }

 private:
  std::ostringstream text_;
};

/// The one file of a folder.
std::string only_file(const TemporaryFolder& folder) {
  REQUIRE(folder.files() == 1);
  return std::filesystem::directory_iterator(folder.path())->path();
}

TEST_CASE("a source becomes code for each architecture") {
  CHECK(executor::runtime::architecture(9, 0) == "sm_90");
  const auto older = executor::runtime::compile_cubin(kTwice, "sm_80");
  const auto newer = executor::runtime::compile_cubin(kTwice, "sm_90");
  CHECK(is_code(older));
  CHECK(is_code(newer));
  CHECK(older != newer);
}

METRONOME_PORTABLE(
    RootKernel, template <class T> struct RootKernel {
      const T* x;
      T* y;
      Index count;
      template <class Context>
      METRONOME_DEVICE void operator()(Context& c) const {
        for (Index i = first(c); i < count; i += stride(c)) y[i] = sqrt_of(x[i]);  // of each
      }
    };);

TEST_CASE("the text that a portable kernel keeps becomes code") {
  const std::string_view text = metronome_portable_text(static_cast<RootKernel<float>*>(nullptr));
  CHECK(own::portable_name(typeid(RootKernel<float>)) == "RootKernel<float>");
  CHECK(own::portable_name(typeid(RootKernel<long long>)) == "RootKernel<long long>");
  for (const std::type_info* type : {&typeid(RootKernel<float>), &typeid(RootKernel<double>)}) {
    CHECK(is_code(executor::runtime::compile_cubin(own::portable_source(*type, text, 256),
                                                   executor::runtime::architecture(9, 0))));
  }
}

TEST_CASE("a kernel that METRONOME_PORTABLE did not declare has no name") {
  CHECK_THROWS_WITH_AS(own::portable_name(typeid(Heard)),
                       "Metronome made a mistake of its own, please report it: "
                       "metronome::(anonymous namespace)::Heard is not declared by "
                       "METRONOME_PORTABLE",
                       InternalError);
}

TEST_CASE("a source that does not compile is shown with the compiler's words") {
  std::string source = kTwice;
  source.replace(source.find("2 * x"), 5, "2 * z");
  const std::string said =
      tests::error_of<InternalError>([&] { executor::runtime::compile_cubin(source, "sm_90"); });
  CHECK(said.find("a generated kernel does not compile for sm_90:\nkernel.cu(10): error: ") !=
        std::string::npos);
  CHECK(said.find("\"z\" is undefined") != std::string::npos);
  CHECK(said.find("  10 |     for (Index i = first(c); i < count; i += stride(c)) y[i] = 2 * "
                  "z[i];\n") != std::string::npos);
}

TEST_CASE("a source that does not say for how many threads it is compiled does not compile") {
  std::string source = kTwice;
  const std::string bound = "  static constexpr int most_threads = 256;\n";
  source.erase(source.find(bound), bound.size());
  const std::string said =
      tests::error_of<InternalError>([&] { executor::runtime::compile_cubin(source, "sm_90"); });
  CHECK(said.find("class \"metronome::cuda::Kernel\" has no member \"most_threads\"") !=
        std::string::npos);
}

TEST_CASE("what code takes is told of each of several sources") {
  std::string thrice = kTwice;
  thrice.replace(thrice.find("2 * x"), 5, "3 * x");
  const std::string said = executor::runtime::resource_report(std::vector{kTwice, thrice}, "sm_80");
  for (const char* entry : {"metronome_entry_0", "metronome_entry_1"}) {
    CHECK(said.find(std::string("Compiling entry function '") + entry + "' for 'sm_80'\n") !=
          std::string::npos);
  }
  CHECK(said.find(" registers, used 0 barriers") != std::string::npos);
}

TEST_CASE("an architecture that NVRTC does not know is named") {
  CHECK_THROWS_WITH_AS(executor::runtime::compile_cubin(kTwice, "sm_10"),
                       "NVRTC cannot compile for sm_10: NVRTC_ERROR_INVALID_OPTION", RunError);
}

TEST_CASE("kept code is found by source and architecture, and not compiled again") {
  const TemporaryFolder folder;
  executor::runtime::CodeCache cache(folder.path());
  const auto made = executor::runtime::cached_cubin(kTwice, "sm_90", cache);
  CHECK(is_code(made));
  const std::uint64_t key =
      std::stoull(std::filesystem::path(only_file(folder)).stem(), nullptr, 16);
  CHECK(cache.find(key) == made);

  // These bytes come from no compiler: finding them shows that none ran.
  const std::vector<char> other = {'k', 'e', 'p', 't'};
  cache.keep(key, other);
  CHECK(executor::runtime::cached_cubin(kTwice, "sm_90", cache) == other);
  CHECK(is_code(executor::runtime::cached_cubin(kTwice, "sm_80", cache)));
  CHECK(is_code(executor::runtime::cached_cubin(kTwice + "// another\n", "sm_90", cache)));
  CHECK(folder.files() == 3);
}

/// Commands of which the sources differ in a number, each twice.
std::vector<Command> several(int count) {
  std::vector<Command> commands;
  for (int i = 0; i < 2 * count; ++i) {
    std::string source = kTwice;
    source.replace(source.find("2 * x"), 1, std::to_string(10 + i % count));
    commands.push_back(
        GeneratedCommand{std::make_shared<const std::string>(std::move(source)), "times", {}, {}});
  }
  return commands;
}

std::vector<const Command*> pointers(const std::vector<Command>& commands) {
  std::vector<const Command*> to;
  for (const Command& command : commands) to.push_back(&command);
  return to;
}

const std::string& source_of(const Command& command) {
  return *std::get<GeneratedCommand>(command).source;
}

TEST_CASE("sources that are compiled at once become the code that each becomes alone") {
  const TemporaryFolder folder;
  executor::runtime::CodeCache cache(folder.path());
  std::vector<Command> commands = several(8);
  std::string wrong = kTwice;
  wrong.replace(wrong.find("* x"), 3, "* z");
  commands.push_back(GeneratedCommand{std::make_shared<const std::string>(wrong), "wrong", {}, {}});
  executor::runtime::compile_ahead(pointers(commands), "sm_90", cache);
  CHECK(folder.files() == 8);
  // The compiler's words come where it is known what the code is for.
  CHECK_THROWS_AS(executor::runtime::cached_cubin(wrong, "sm_90", cache), InternalError);
  commands.pop_back();
  for (const Command& command : commands) {
    CHECK(executor::runtime::cached_cubin(source_of(command), "sm_90", cache) ==
          executor::runtime::compile_cubin(source_of(command), "sm_90"));
  }
  CHECK(folder.files() == 8);
}

TEST_CASE("compiling ahead leaves what it cannot do to the one who needs it") {
  const TemporaryFolder folder;
  executor::runtime::CodeCache cache(folder.path());
  const std::vector<Command> commands = several(3);
  executor::runtime::compile_ahead(pointers(commands), "sm_10", cache);
  CHECK(folder.files() == 0);
  executor::runtime::compile_ahead({}, "sm_90", cache);
  CHECK(folder.files() == 0);
  write_file(folder.file("file"), "");
  executor::runtime::CodeCache closed(folder.file("file/kernels"));
  const Heard heard;
  executor::runtime::compile_ahead(pointers(commands), "sm_90", closed);
  CHECK(heard.lines() == 1);
  for (const Command& command : commands) {
    CHECK(is_code(executor::runtime::cached_cubin(source_of(command), "sm_90", closed)));
  }
  CHECK(heard.lines() == 1);
}

TEST_CASE("a damaged file is a warning, and is replaced") {
  const TemporaryFolder folder;
  executor::runtime::CodeCache cache(folder.path());
  const auto made = executor::runtime::cached_cubin(kTwice, "sm_90", cache);
  const std::string file = only_file(folder);
  const std::string whole = read_file(file);
  std::string flipped = whole;
  flipped.back() ^= 1;
  for (const std::string& damaged : {flipped, whole.substr(0, whole.size() / 2),
                                     whole.substr(0, 10), std::string(), whole + "x"}) {
    INFO(damaged.size(), " bytes");
    write_file(file, damaged);
    const Heard heard;
    CHECK(executor::runtime::cached_cubin(kTwice, "sm_90", cache) == made);
    CHECK(heard.says(file + ": this compiled kernel is damaged; it is compiled anew"));
    CHECK(read_file(file) == whole);
  }
}

TEST_CASE("a folder that cannot be written is one warning") {
  const TemporaryFolder folder;
  write_file(folder.file("file"), "");
  executor::runtime::CodeCache cache(folder.file("file/kernels"));
  const Heard heard;
  CHECK(is_code(executor::runtime::cached_cubin(kTwice, "sm_90", cache)));
  CHECK(is_code(executor::runtime::cached_cubin(kTwice, "sm_80", cache)));
  CHECK(heard.lines() == 1);
  CHECK(
      heard.says(".cubin: cannot be saved: Not a directory; kernels are compiled again the next "
                 "time (METRONOME_CACHE names the folder)"));
}

TEST_CASE("METRONOME_CACHE names the folder") {
  const char* given = std::getenv("METRONOME_CACHE");
  const std::string before = given == nullptr ? "" : given;
  setenv("METRONOME_CACHE", "/somewhere", 1);
  CHECK(executor::runtime::CodeCache::default_folder() == "/somewhere/kernels");
  if (given == nullptr) {
    unsetenv("METRONOME_CACHE");
  } else {
    setenv("METRONOME_CACHE", before.c_str(), 1);
  }
}

#endif

}  // namespace
}  // namespace metronome
