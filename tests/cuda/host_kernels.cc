#include "tests/cuda/host_kernels.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <system_error>

#include "executor/cuda/program/io_kernels.h"
#include "graph/ir/error.h"
#include "ops/cuda/embedded.h"
#include "ops/cuda/kernel_lists.h"

namespace metronome {
namespace {

// Every source begins with these headers, and they take longer than it does: they are compiled
// once.
constexpr const char* kBefore =
    "#include \"tests/cuda/host_context.h\"\n#include \"ops/kernel/rows.h\"\n";
constexpr const char* kFirstLine = "#line 1 \"source\"\n";
constexpr const char* kEntry = R"(
extern "C" __attribute__((visibility("default"))) void metronome_entry(
    const void* arguments, metronome::cuda::HostContext& context) {
  (*static_cast<const metronome::cuda::Kernel*>(arguments))(context);
}
)";

// Names are hidden: every source calls its kernel `Kernel`. Libraries are those of this program.
constexpr const char* kCompiler =
    "g++ -std=c++20 -O1 -ffp-contract=off -fPIC -fvisibility=hidden -fno-gnu-unique "
#ifdef __SANITIZE_ADDRESS__
    "-fsanitize=address "  // a program that has the sanitizer watches these kernels too
#endif
    "-I{0} -I. ";
constexpr const char* kHeaders = "-x c++-header -o {0}/before.h.gch {0}/before.h > {1} 2>&1";
constexpr const char* kSource = "-shared -nostdlib -include {0}/before.h -o {2} {3} > {1} 2>&1";

std::string text_of(const std::string& file) {
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

/// Throws std::runtime_error with what the compiler said, and the text.
void run_compiler(const std::string& arguments, const std::string& log, const std::string& name,
                  const std::string& text) {
  if (std::system(arguments.c_str()) == 0) return;
  throw std::runtime_error(
      fmt::format("the source of \"{}\" does not compile:\n{}\n{}", name, text_of(log), text));
}

}  // namespace

HostCompiler::~HostCompiler() {
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

void HostCompiler::make_folder() {
  std::string name = (std::filesystem::temp_directory_path() / "metronome_XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) {
    throw std::system_error(errno, std::generic_category(), "mkdtemp");
  }
  folder_ = name;
  for (const EmbeddedHeader& header : embedded_headers()) {
    const std::filesystem::path file = folder_ / header.name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << header.text;
  }
  std::ofstream(folder_ / "before.h") << kBefore;
  const std::string log = (folder_ / "before.log").string();
  run_compiler(fmt::format(fmt::runtime(std::string(kCompiler) + kHeaders), folder_.string(), log),
               log, "the headers", kBefore);
}

HostKernel HostCompiler::compile(const std::string& name, const std::string& source) {
  const auto known = compiled_.find(source);
  if (known != compiled_.end()) return known->second;
  if (folder_.empty()) make_folder();
  const std::string stem = (folder_ / std::to_string(compiled_.size())).string();
  const std::string text = stem + ".cc", library = stem + ".so", log = stem + ".log";
  std::ofstream(text) << kFirstLine << source << kEntry;
  run_compiler(fmt::format(fmt::runtime(std::string(kCompiler) + kSource), folder_.string(), log,
                           library, text),
               log, name, source);
  // Stays open: its functions are called until the program ends.
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) throw std::runtime_error(dlerror());
  const auto kernel = reinterpret_cast<HostKernel>(dlsym(handle, "metronome_entry"));
  compiled_.emplace(source, kernel);
  return kernel;
}

HostKernel HostKernels::find(const KernelCommand& command) const {
  const auto found = kernels_.find(command.kernel);
  if (found == kernels_.end()) {
    throw InternalError(fmt::format("kernel {} is in no list of kernels", command.name));
  }
  return found->second;
}

HostKernels& host_kernels() {
  static HostKernels kernels;
  static const bool filled = [] {
    kernels.add(cuda::AllKernels{});
    kernels.add(cuda::IoKernels{});
    return true;
  }();
  static_cast<void>(filled);
  return kernels;
}

}  // namespace metronome
