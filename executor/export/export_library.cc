// A folder is written beside its place under another name, then renamed.
#include "executor/export/export_library.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "executor/export/check_numbers.h"
#include "executor/export/kernel_files.h"
#include "executor/export/library_tables.h"
#include "executor/export/print_library.h"
#include "graph/ir/error.h"

namespace metronome {
namespace exported {
namespace {

namespace fs = std::filesystem;

/// Kernel files by name.
using Files = std::map<std::string_view, std::string_view>;

Files all_files() {
  Files files;
  for (const KernelFile& file : kernel_files()) files.emplace(file.name, file.text);
  return files;
}

/// Whether C, C++, their headers or CMake have the name.
bool is_taken(std::string_view name) {
  constexpr std::string_view kTaken =
      " EOF FILE INT32_MAX INT64_MAX NULL SIZE_MAX UINT64_MAX _Bool _Static_assert abort abs "
      "acos alignas alignof all and and_eq asin asm assert atan atan2 auto bitand bitor bool "
      "break build calloc case catch cbrt ceil char class clean clock close compl complex "
      "concept const const_cast consteval constexpr constinit continue cos cosh ctype decltype "
      "default delete div do double dynamic_cast edit_cache else enum erf erfc errno exit exp "
      "exp2 explicit expm1 export extern fabs fabsf false fclose fenv float floor fmod fopen for "
      "fprintf fputs fread free friend fseek ftell fwrite gamma goto help hypot if index inline "
      "install int int16_t int32_t int64_t int8_t intptr_t inttypes j0 j1 jn kernel_ops labs "
      "lgamma limits linux locale log log10 log1p log2 long main malloc math memcmp memcpy "
      "memmove memset metronome mutable namespace new noexcept not not_eq nullptr open operator "
      "or or_eq package pow printf private protected ptrdiff_t public puts raise rand read "
      "realloc rebuild_cache register reinterpret_cast remove rename requires restrict return "
      "rindex round select setjmp short signal signed sin sinh size_t sizeof sleep snprintf "
      "sprintf sqrt srand static static_assert static_cast std stdalign stdarg stdatomic stdbool "
      "stddef stderr stdin stdint stdio stdlib stdnoreturn stdout strcmp strcpy string strings "
      "strlen strncmp struct switch tan tanh template test tgmath this thread_local threads "
      "throw time true trunc try typedef typeid typename typeof uchar uint16_t uint32_t uint64_t "
      "uint8_t uintptr_t union unistd unix unsigned using virtual void volatile wchar wchar_t "
      "wctype while write xor xor_eq y0 y1 yn ";
  return kTaken.find(fmt::format(" {} ", name)) != kTaken.npos;
}

std::string_view folder_of(std::string_view name) { return name.substr(0, name.rfind('/') + 1); }

/// The names that a file includes in quotes.
std::vector<std::string_view> included(std::string_view text) {
  constexpr std::string_view kInclude = "#include \"";
  std::vector<std::string_view> names;
  for (std::size_t at = text.find(kInclude); at != text.npos; at = text.find(kInclude, at + 1)) {
    const std::size_t begin = at + kInclude.size();
    names.push_back(text.substr(begin, text.find('"', begin) - begin));
  }
  return names;
}

/// Files that a library of these ops is built of: sources that bind them, with the other sources of
/// their folders, and what all of those include.
class NeededFiles {
 public:
  explicit NeededFiles(const Files& files) : files_(files) {}

  void add(std::string_view name) {
    const auto found = files_.find(name);
    if (found == files_.end()) throw InternalError(fmt::format("no kernel file \"{}\"", name));
    if (!names_.insert(found->first).second) return;
    for (const std::string_view each : included(found->second)) {
      add(each);
      // Sources beside it define what such a header declares.
      if (each.ends_with("_cpu.h")) add_sources(folder_of(each));
    }
  }

  /// Sources of kernels in a folder, and of the plain rules that they ask for.
  void add_sources(std::string_view folder) {
    for (const auto& [name, text] : files_) {
      if (folder_of(name) == folder && name.ends_with(".cc")) add(name);
    }
  }

  /// The header that declares a struct and its kernels.
  std::string_view add_op(const std::string& name) {
    const std::string bind = fmt::format("CpuKernel bind(const {}&", name);
    for (const auto& [file, text] : files_) {
      if (file.ends_with("_cpu.cc") && text.find(bind) != text.npos) add_sources(folder_of(file));
    }
    const std::string rules = fmt::format("METRONOME_RULES({})", name);
    for (const auto& [file, text] : files_) {
      const bool declares = file.ends_with(".h") && !file.starts_with("ops/rules/") &&
                            (text.find(rules) != text.npos || text.find(bind) != text.npos);
      if (!declares) continue;
      add(file);
      return file;
    }
    throw InternalError(fmt::format("no kernel file declares {}", name));
  }

  const std::set<std::string_view>& names() const { return names_; }

 private:
  const Files& files_;
  std::set<std::string_view> names_;
};

void write(const fs::path& file, std::string_view text) {
  fs::create_directories(file.parent_path());
  std::ofstream out(file, std::ios::binary);
  out << text;
  out.close();
  if (!out) throw RunError(fmt::format("{}: cannot be written", file.string()));
}

void write_folder(Executable::Impl& step, const LibraryTables& tables, const fs::path& folder) {
  const Files files = all_files();
  NeededFiles needed(files);
  std::set<std::string_view> headers;
  for (const std::string& name : tables.op_structs) headers.insert(needed.add_op(name));
  for (const std::string_view always :
       {"executor/support/hash64.cc", "ops/cpu/isa/gemm.cc", "ops/cpu/isa/gemm_direct.cc",
        "ops/cpu/isa/rows.cc", "ops/expr/nest.cc", "ops/rules/fault.cc", "ops/rules/only.cc",
        "ops/tables/without_libraries_cpu.cc", "graph/ir/sizes.cc"}) {
    needed.add(always);
  }
  needed.add_sources("executor/export/runtime/");
  std::vector<std::string> sources;
  const std::string kept = print_kept(tables), kept_functions = print_kept_functions(tables);
  for (const std::string_view name : needed.names()) {
    const std::string_view text = name == "ops/rules/kept.h"            ? kept
                                  : name == "ops/expr/kept_functions.h" ? kept_functions
                                                                        : files.at(name);
    write(folder / "kernels" / name, text);
    if (name.ends_with(".cc")) sources.push_back(fmt::format("kernels/{}", name));
  }
  std::string ops = "// The ops of which the library has kernels.\n#pragma once\n\n";
  for (const std::string_view header : headers) ops += fmt::format("#include \"{}\"\n", header);
  write(folder / "kernel_ops.h", ops);
  write(folder / (tables.name + ".h"), print_header(tables));
  write(folder / (tables.name + ".cc"), print_source(tables));
  write(folder / "CMakeLists.txt", print_cmake(tables, sources));
  write(folder / "check.c", print_check(tables, check_numbers(step)));
  write(folder / "README.md", print_readme(tables));
  if (tables.weights_beside) step.storages.save(folder / (tables.name + ".safetensors"));
}

/// A folder beside `folder` that is gone at the end, unless it was moved to its place.
class HalfFolder {
 public:
  explicit HalfFolder(const fs::path& folder)
      : path_(fmt::format("{}.{}", folder.string(), ::getpid())) {}
  ~HalfFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  HalfFolder(const HalfFolder&) = delete;
  HalfFolder& operator=(const HalfFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

}  // namespace
}  // namespace exported

CompileOptions for_export(CompileOptions options) {
  options.threads = 1;
  options.kernels = Family::own;
  options.tune = Tune::off;
  return options;
}

void export_library(Executable& step, const std::string& folder, const ExportOptions& options) {
  using namespace exported;
  Executable::Impl& impl = step.require_impl();
  const std::string name =
      options.name.empty() ? identifier_of(impl.declared.first().name()) : options.name;
  if (!is_identifier(name)) {
    throw RunError(
        fmt::format("a library cannot be called \"{}\": it takes letters, digits and _, "
                    "and begins with no digit",
                    name));
  }
  if (is_taken(name)) {
    throw RunError(fmt::format(
        "a library cannot be called \"{}\", which C, C++ or CMake have; give ExportOptions::name",
        name));
  }
  const fs::path given = fs::path(folder).lexically_normal();
  const fs::path path = given.has_filename() ? given : given.parent_path();
  const fs::path parent = path.parent_path();
  std::error_code none;
  const auto refuse = [&](const std::string& why) {
    throw RunError(fmt::format("\"{}\" cannot be exported to: {}", folder, why));
  };
  if (folder.empty()) refuse("it names no folder");
  if (fs::exists(path, none)) refuse("it exists");
  if (!parent.empty() && !fs::is_directory(parent, none)) {
    refuse(fmt::format("there is no folder \"{}\"", parent.string()));
  }
  const LibraryTables tables = library_tables(impl, name, !options.weights_inside);
  try {
    const HalfFolder half(path);
    write_folder(impl, tables, half.path());
    fs::rename(half.path(), path);
  } catch (const fs::filesystem_error& error) {
    refuse(error.code().message());
  }
}

}  // namespace metronome
