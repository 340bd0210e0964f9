// Lays out blocks of memory by Metronome's planner:
//
//   bazel run //benchmarks:planner -- --csv FILE... [--capacity N] [--work N] [--offsets FILE]
//
// Each file's blocks (benchmarks/planner/block_csv.h) take a line: the height that was found, the
// fullest step's bytes, which no layout can go below, and whether it is proven to be the smallest.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <exception>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include "benchmarks/planner/block_csv.h"
#include "executor/support/atomic_file.h"
#include "graph/ir/error.h"
#include "graph/placement/placement.h"

namespace metronome::benchmarks {
namespace {

struct PlannerArguments {
  std::vector<std::string> files;
  std::optional<std::size_t> capacity;
  std::size_t work = plan::SearchLimits{}.work;
  std::string offsets;
};

std::string text_of(const std::string& file) {
  std::ostringstream text;
  std::ifstream in(file, std::ios::binary);
  if (in && !std::filesystem::is_directory(file)) text << in.rdbuf();
  if (!in.is_open() || in.bad() || text.bad() || std::filesystem::is_directory(file)) {
    throw RunError(fmt::format("{}: cannot be read", file));
  }
  return text.str();
}

/// Whether the layout is within the capacity.
bool plan_file(const std::string& file, const PlannerArguments& arguments) {
  using Clock = std::chrono::steady_clock;
  const BlockTable table = parse_blocks(text_of(file), file);
  std::error_code none;
  if (!arguments.offsets.empty() && std::filesystem::equivalent(file, arguments.offsets, none)) {
    throw RunError(fmt::format("--offsets {} would replace what it reads", arguments.offsets));
  }
  std::optional<executor::AtomicFile> offsets;
  if (!arguments.offsets.empty()) offsets.emplace(arguments.offsets);
  const auto begin = Clock::now();
  const std::size_t peak = plan::peak_of(table.blocks).bytes;
  const plan::Placement found =
      plan::place(table.blocks, {}, plan::Effort::search,
                  {.work = arguments.work, .enough = arguments.capacity.value_or(0)});
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  if (offsets) {
    const std::string text = print_offsets(table, found.offsets);
    offsets->write(std::as_bytes(std::span(text)));
    offsets->commit();
  }
  const std::string proof =
      found.bytes == found.least ? "optimal" : fmt::format("at least {} is needed", found.least);
  fmt::print("{}: {} blocks, height {}, bound {}, ratio {:.4f}, {}, {:.2f} s\n", file,
             table.blocks.size(), found.bytes, peak,
             peak == 0 ? 1 : static_cast<double>(found.bytes) / static_cast<double>(peak), proof,
             seconds);
  if (!arguments.capacity || found.bytes <= *arguments.capacity) return true;
  const char* const hope = found.least > *arguments.capacity ? ", and cannot"
                           : plan::is_searched(table.blocks) ? "; more --work may find a layout"
                                                             : "; it is too large to be searched";
  fmt::print("{}: does not fit into {} bytes{}\n", file, *arguments.capacity, hope);
  return false;
}

int run(int argc, char** argv) {
  PlannerArguments arguments;
  CLI::App app(
      "Lays out blocks of memory by Metronome's planner. Exit status 1: not within the capacity; "
      "2: a "
      "file is refused.");
  app.add_option(
         "--csv", arguments.files,
         "Files with columns id,lower,upper,size[,alignment]; a block is held from its step lower "
         "to before upper")
      ->required();
  const CLI::Range range(std::size_t{0}, std::size_t{1} << 62);
  app.add_option("--capacity", arguments.capacity,
                 "Ends where so many bytes are enough, else at the least that it finds")
      ->check(range);
  app.add_option("--work", arguments.work,
                 "Most work of each of three searches: a billion is about a second; 0: a little")
      ->check(range)
      ->capture_default_str();
  app.add_option("--offsets", arguments.offsets, "Writes the one file with a column \"offset\"");
  try {
    app.parse(argc, argv);
    if (!arguments.offsets.empty() && arguments.files.size() > 1) {
      throw RunError("--offsets is for one file");
    }
    bool all_fit = true;
    for (const std::string& file : arguments.files) all_fit &= plan_file(file, arguments);
    return all_fit ? 0 : 1;
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  } catch (const std::exception& error) {
    fmt::print(stderr, "planner: {}\n", error.what());
    return 2;
  }
}

}  // namespace
}  // namespace metronome::benchmarks

int main(int argc, char** argv) { return metronome::benchmarks::run(argc, argv); }
