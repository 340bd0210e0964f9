// gallery: trains the examples, or those that are named, and prints how they come along.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string_view>
#include <vector>

#include "models/gallery/gallery.h"

namespace {

using namespace metronome;

constexpr std::int64_t kSteps = 1000, kSaidEvery = 200;

void train(const gallery::Entry& entry) {
  const gallery::Example example = entry.make(f32);
  Executable step = compile(example.graph);
  for (std::int64_t i = 0; i < kSteps; ++i) {
    step.run(example.batch(i));
    if (i != 0 && (i + 1) % kSaidEvery != 0) continue;
    fmt::print("{:<12} step {:>4}  loss {:.5f}", entry.name, i + 1,
               step.read_scalar(example.graph.loss()));
    for (const std::string& name : example.watched) {
      fmt::print("  {} {:.2f}", name, step.read(name).item<double>());
    }
    fmt::print("\n");
  }
}

int run(const std::vector<std::string_view>& names) {
  for (const std::string_view name : names) {
    const auto known = [&](const gallery::Entry& entry) { return entry.name == name; };
    if (std::ranges::none_of(gallery::all(), known)) {
      fmt::print(stderr, "gallery: there is no example \"{}\"\n", name);
      return 2;
    }
  }
  for (const gallery::Entry& entry : gallery::all()) {
    if (names.empty() || std::ranges::find(names, entry.name) != names.end()) train(entry);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    fmt::print(stderr, "gallery: {}\n", error.what());
    return 1;
  }
}
