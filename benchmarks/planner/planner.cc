// Lays out blocks of memory by Metronome's planner:
//
//   bazel run //benchmarks:planner -- --csv FILE... [--capacity N] [--work N] [--offsets FILE]
//
// Each file's blocks (benchmarks/planner/block_csv.h) take a line: the height that was found, the
// fullest step's bytes, which no layout can go below, and whether it is proven to be the smallest.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/planner/block_csv.h"
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
  std::ifstream in(file, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in) throw RunError(fmt::format("{}: cannot be read", file));
  return text;
}

/// Whether the layout is within the capacity.
bool plan_file(const std::string& file, const PlannerArguments& arguments) {
  using Clock = std::chrono::steady_clock;
  const BlockTable table = parse_blocks(text_of(file), file);
  const auto begin = Clock::now();
  const std::size_t peak = plan::peak_of(table.blocks).bytes;
  const plan::Placement found =
      plan::place(table.blocks, {}, plan::Effort::search,
                  {.work = arguments.work, .enough = arguments.capacity.value_or(0)});
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  const std::string proof =
      found.bytes == found.least ? "optimal" : fmt::format("at least {} is needed", found.least);
  fmt::print("{}: {} blocks, height {}, bound {}, ratio {:.4f}, {}, {:.2f} s\n", file,
             table.blocks.size(), found.bytes, peak,
             peak == 0 ? 1 : static_cast<double>(found.bytes) / static_cast<double>(peak), proof,
             seconds);
  if (!arguments.offsets.empty()) {
    std::ofstream out(arguments.offsets, std::ios::binary);
    out << print_offsets(table, found.offsets);
    out.close();
    if (!out) throw RunError(fmt::format("{}: cannot be written", arguments.offsets));
  }
  if (!arguments.capacity || found.bytes <= *arguments.capacity) return true;
  fmt::print(
      "{}: does not fit into {} bytes{}\n", file, *arguments.capacity,
      found.least > *arguments.capacity ? ", and cannot" : "; more --work may find a layout");
  return false;
}

int run(int argc, char** argv) {
  PlannerArguments arguments;
  CLI::App app("Lays out blocks of memory by Metronome's planner.");
  app.add_option("--csv", arguments.files, "Files with columns id,lower,upper,size[,alignment]")
      ->required();
  app.add_option("--capacity", arguments.capacity,
                 "Ends where so many bytes are enough; 1 is the exit code where they are not");
  app.add_option("--work", arguments.work,
                 "Most work of each of three searches: a billion is about a second")
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
