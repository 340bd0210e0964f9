#include "tests/cuda/host_kernels.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "executor/cuda/program/io_kernels.h"
#include "executor/support/hash64.h"
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
constexpr const char* kPlain = "-E -P -o {1} {0}/before.h > {2} 2>&1 && g++ --version >> {1}";
constexpr const char* kHeaders = "-x c++-header -o {0}/before.h.gch {0}/before.h > {1} 2>&1";
constexpr const char* kSource = "-shared -nostdlib -include {0}/before.h -o {2} {3} > {1} 2>&1";
constexpr std::size_t kKeptFolders = 4;
constexpr std::string_view kNew = "new_";

namespace fs = std::filesystem;

HostKernel entry_of(void* library, const char* name) {
  return reinterpret_cast<HostKernel>(dlsym(library, name));
}

std::string text_of(const fs::path& file) {
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

std::string hash_of(std::initializer_list<std::string_view> texts) {
  executor::Hash64 hash;
  for (const std::string_view text : texts) hash.add_text(text);
  return fmt::format("{:016x}", hash.value());
}

/// Throws std::runtime_error with what the compiler said, and the text.
template <class... Arguments>
void run_compiler(const char* what, const std::string& log, const std::string& name,
                  const std::string& text, const Arguments&... arguments) {
  const std::string command =
      fmt::format(fmt::runtime(std::string(kCompiler) + what), arguments...);
  if (std::system(command.c_str()) == 0) return;
  throw std::runtime_error(
      fmt::format("the source of \"{}\" does not compile:\n{}\n{}", name, text_of(log), text));
}

/// Removed in the end, unless it was moved.
class NewFolder {
 public:
  explicit NewFolder(const fs::path& within) {
    std::string name = (within / (std::string(kNew) + "XXXXXX")).string();
    if (mkdtemp(name.data()) == nullptr) {
      throw std::system_error(errno, std::generic_category(), "mkdtemp " + name);
    }
    path_ = name;
  }
  NewFolder(const NewFolder&) = delete;
  ~NewFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  fs::path operator/(const std::string& name) const { return path_ / name; }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

/// Leaves the folders that were opened last, and those that others are making.
void remove_old(const fs::path& within) {
  std::vector<std::pair<fs::file_time_type, fs::path>> folders;
  std::error_code ignored;  // others remove, too
  const auto some_time_ago = fs::file_time_type::clock::now() - std::chrono::hours(1);
  for (const auto& entry : fs::directory_iterator(within, ignored)) {
    const fs::file_time_type written = fs::last_write_time(entry.path(), ignored);
    const bool is_made = entry.path().filename().string().starts_with(kNew);
    if (!is_made || written < some_time_ago) folders.emplace_back(written, entry.path());
  }
  std::ranges::sort(folders, std::greater<>());
  for (std::size_t i = kKeptFolders; i < folders.size(); ++i) {
    fs::remove_all(folders[i].second, ignored);
  }
}

}  // namespace

/// It is made elsewhere and moved to its place whole; of two programs that do so one is late.
void HostCompiler::open_folder() {
  const fs::path all = fs::temp_directory_path() / fmt::format("metronome-kernels-{}", getuid());
  fs::create_directories(all);
  const NewFolder made(all);
  std::string headers;
  for (const EmbeddedHeader& header : embedded_headers()) {
    const fs::path file = made / header.name;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << header.text;
    headers += hash_of({header.name, header.text});
  }
  std::ofstream(made / "before.h") << kBefore;
  const std::string log = made / "log", plain = made / "before.i", folder = made.path();
  run_compiler(kPlain, log, "the headers", kBefore, folder, plain, log);
  const fs::path kept = all / hash_of({kCompiler, headers, text_of(plain)});
  if (!fs::exists(kept / "before.h.gch")) {
    run_compiler(kHeaders, log, "the headers", kBefore, folder, log);
    std::error_code late;
    fs::rename(made.path(), kept, late);
    remove_old(all);
  }
  fs::last_write_time(kept, fs::file_time_type::clock::now());
  folder_ = kept;
}

void* HostCompiler::library_of(const std::string& name, const std::string& source,
                               const std::string& text) {
  if (folder_.empty()) open_folder();
  std::string stem = hash_of({text});
  const auto file = [&](const char* ending) { return folder_ / (stem + ending); };
  while (fs::exists(file(".so")) && text_of(file(".cc")) != text) {
    stem += "x";  // another text of the same hash
  }
  if (!fs::exists(file(".so"))) {
    const NewFolder made(folder_);
    const std::string to_compile = made / "source.cc", library = made / "source.so";
    std::ofstream(to_compile) << text;
    const std::string log = made / "log";
    run_compiler(kSource, log, name, source, folder_.string(), log, library, to_compile);
    fs::rename(to_compile, file(".cc"));
    fs::rename(library, file(".so"));
  }
  void* handle = dlopen(file(".so").c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) throw std::runtime_error(dlerror());
  return handle;
}

HostKernel HostCompiler::compile(const std::string& name, const std::string& source) {
  const std::scoped_lock lock(mutex_);
  const auto known = compiled_.find(source);
  if (known != compiled_.end()) return known->second;
  const auto prepared = prepared_.find(source);
  const HostKernel kernel =
      prepared != prepared_.end()
          ? prepared->second
          : entry_of(library_of(name, source, kFirstLine + source + kEntry), kGeneratedEntry);
  compiled_.emplace(source, kernel);
  return kernel;
}

std::size_t HostCompiler::prepare(std::span<const std::string> sources) {
  constexpr std::size_t kTogether = 32;
  const std::scoped_lock lock(mutex_);
  std::vector<std::string> now;
  const auto compile_now = [&] {
    try {
      const std::string text = together(now, kEntry);
      void* const library = library_of("several kernels", text, text);
      for (std::size_t k = 0; k < now.size(); ++k) {
        const std::string name = fmt::format("{}_{}", kGeneratedEntry, k);
        prepared_.emplace(now[k], entry_of(library, name.c_str()));
      }
    } catch (const std::runtime_error&) {
      // `compile` says of which.
    }
    now.clear();
  };
  for (const std::string& source : sources) {
    if (prepared_.contains(source) || compiled_.contains(source)) continue;
    now.push_back(source);
    if (now.size() == kTogether) compile_now();
  }
  if (!now.empty()) compile_now();
  return static_cast<std::size_t>(std::ranges::count_if(sources, [&](const std::string& source) {
    return prepared_.contains(source) || compiled_.contains(source);
  }));
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
