// Files of ours read by Python's safetensors package, and its files read by us.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "executor/checkpoint/checkpoint.h"
#include "executor/checkpoint/load_weights.h"
#include "executor/checkpoint/safetensors.h"
#include "tests/executor/temporary_folder.h"

namespace python_safetensors_test {
using namespace metronome;

namespace {

struct Ran {
  int status = 0;
  std::string output;
};

Ran run(const std::string& command) {
  Ran ran;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return {.status = -1, .output = "no shell"};
  std::array<char, 4096> buffer;
  for (std::size_t got; (got = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    ran.output.append(buffer.data(), got);
  }
  ran.status = pclose(pipe);
  return ran;
}

// METRONOME_PYTHON, else the one that `./metronome setup` keeps in the cache; empty if there is
// none.
std::string find_python() {
  const auto environment = [](const char* name) {
    const char* text = std::getenv(name);
    return std::string(text == nullptr ? "" : text);
  };
  if (const auto named = environment("METRONOME_PYTHON"); !named.empty()) return named;
  std::filesystem::path cache = environment("METRONOME_CACHE");
  if (cache.empty()) {
    const auto xdg = environment("XDG_CACHE_HOME");
    cache = (xdg.empty() ? std::filesystem::path(environment("HOME")) / ".cache"
                         : std::filesystem::path(xdg)) /
            "metronome";
  }
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(cache, ignored)) {
    const auto python = entry.path() / "bin/python";
    if (entry.path().filename().string().starts_with("python-") &&
        std::filesystem::exists(python)) {
      return python;
    }
  }
  return "";
}

struct Python {
  std::string program = find_python();
  std::string missing;  // why these tests cannot run; empty if they can

  Python() {
    if (program.empty()) {
      missing = "neither METRONOME_PYTHON nor the cache names a Python";
    } else {
      const Ran ran = run(fmt::format("'{}' -c 'import numpy, safetensors.numpy' 2>&1", program));
      if (ran.status != 0) missing = program + " cannot import safetensors:\n" + ran.output;
    }
    if (!missing.empty()) fmt::print(stderr, "python_safetensors_test: skipped: {}\n", missing);
  }

  std::string operator()(const TemporaryFolder& folder, std::string_view script) const {
    write_file(folder.file("script.py"), script);
    const Ran ran =
        run(fmt::format("cd '{}' && '{}' script.py 2>&1", folder.path().string(), program));
    INFO(ran.output);
    REQUIRE(ran.status == 0);
    return ran.output;
  }
};

const Python& python() {
  static const Python python;
  return python;
}

template <class T>
std::vector<T> counted(std::size_t size, double step) {
  std::vector<T> numbers(size);
  for (std::size_t i = 0; i < size; ++i) {
    numbers[i] = static_cast<T>((static_cast<double>(i) - 2) * step);
  }
  return numbers;
}

template <class T>
executor::checkpoint::TensorBytes tensor(std::string name, Element element, Shape shape,
                                         const std::vector<T>& numbers) {
  return {std::move(name), {element, std::move(shape)}, std::as_bytes(std::span(numbers))};
}

// "name dtype shape sum", a tensor a line; every sum here is exact in f64.
template <class T>
std::string line(std::string_view name, std::string_view dtype, const Shape& shape,
                 const std::vector<T>& numbers) {
  return fmt::format("{} {} {} {:.6f}\n", name, dtype, to_string(shape),
                     std::accumulate(numbers.begin(), numbers.end(), 0.0));
}

}  // namespace

TEST_CASE("Python reads what we write" * doctest::skip(!python().missing.empty())) {
  const TemporaryFolder folder;
  const auto weight = counted<float>(6, .25);
  const auto wide = counted<double>(5, 1.0 / 1024);
  const auto small = counted<std::int32_t>(4, 3);
  const auto large = counted<std::int64_t>(3, 1 << 30);
  const auto step = std::vector<std::int64_t>{17};
  const auto mask = std::vector<std::uint8_t>{1, 0, 1, 1};
  const auto none = std::vector<float>{};
  const auto halves = counted<_Float16>(6, .25);
  const std::vector<executor::checkpoint::TensorBytes> tensors = {
      tensor("a/mask", bool_, {4}, mask),     tensor("b/weight", f32, {2, 3}, weight),
      tensor("c/wide", f64, {5, 1, 1}, wide), tensor("d/small", i32, {2, 2}, small),
      tensor("e/größe", i64, {3}, large),     tensor("f/step", i64, {}, step),
      tensor("g/none", f32, {0, 3}, none),    tensor("h/halves", f16, {6}, halves)};
  executor::checkpoint::write_safetensors(folder.file("ours"), tensors,
                                          {{"note", "zwölf"}, {"k", "v"}});
  const std::string printed = python()(folder, R"(
import sys
from safetensors import safe_open
sys.stdout.reconfigure(encoding="utf-8")
with safe_open("ours", framework="np") as file:
    print(sorted(file.metadata().items()))
    for name in sorted(file.keys()):
        t = file.get_tensor(name)
        print(name, t.dtype, list(t.shape), f"{t.sum(dtype='f8'):.6f}")
)");
  CHECK(printed ==
        "[('k', 'v'), ('note', 'zwölf')]\n" + line("a/mask", "bool", {4}, mask) +
            line("b/weight", "float32", {2, 3}, weight) +
            line("c/wide", "float64", {5, 1, 1}, wide) + line("d/small", "int32", {2, 2}, small) +
            line("e/größe", "int64", {3}, large) + line("f/step", "int64", {}, step) +
            line("g/none", "float32", {0, 3}, none) + line("h/halves", "float16", {6}, halves));
}

TEST_CASE("weights for other programs have PyTorch's names in Python" *
          doctest::skip(!python().missing.empty())) {
  const TemporaryFolder folder;
  auto weight = counted<float>(6, .25);
  const auto entry = [&](const std::string& path) {
    return executor::checkpoint::StorageEntry{
        .path = path, .type = {f32, {2, 3}}, .data = reinterpret_cast<std::byte*>(weight.data())};
  };
  const std::vector<executor::checkpoint::StorageEntry> storages = {entry("actor/linear/weight"),
                                                                    entry("actor/norm/weight")};
  executor::checkpoint::save_weights(folder.file("ours"), storages, f16);
  CHECK(python()(folder, R"(
from safetensors import safe_open
with safe_open("ours", framework="np") as file:
    print(file.metadata())
    for name in file.keys():
        print(name, file.get_tensor(name).dtype, file.get_tensor(name).sum())
)") == "{'format': 'pt'}\nactor.linear.weight float16 0.75\nactor.norm.weight float16 0.75\n");
}

TEST_CASE("we read what Python writes" * doctest::skip(!python().missing.empty())) {
  const TemporaryFolder folder;
  python()(folder, R"(
import numpy as np
from safetensors.numpy import save_file
save_file({
    "weight": np.arange(6, dtype=np.float32).reshape(2, 3) / 4,
    "wide": np.array([1e300, -1 / 3]),
    "small": np.array([[-1], [2 ** 31 - 1]], dtype=np.int32),
    "step": np.array(-2 ** 62),
    "mask": np.array([True, False, True]),
    "none": np.zeros((3, 0), dtype=np.float64),
    "halves": np.array([0.5, -2], dtype=np.float16),
}, "theirs", metadata={"note": "zwölf"})
)");
  const executor::checkpoint::SafetensorsFile file(folder.file("theirs"));
  CHECK(file.metadata() == executor::checkpoint::Metadata{{"note", "zwölf"}});
  const auto check = [&](const std::string& name, const Type& type, auto expected) {
    CAPTURE(name);
    const auto& entry = file.tensors().at(name);
    CHECK(entry.type == type);
    auto numbers = expected;
    std::ranges::fill(numbers, 99);
    file.read(entry, std::as_writable_bytes(std::span(numbers)));
    CHECK(numbers == expected);
  };
  CHECK(file.tensors().size() == 7);
  check("weight", {f32, {2, 3}}, std::vector<float>{0, .25f, .5f, .75f, 1, 1.25f});
  check("wide", {f64, {2}}, std::vector<double>{1e300, -1.0 / 3});
  check("small", {i32, {2, 1}}, std::vector<std::int32_t>{-1, 2147483647});
  check("step", {i64, {}}, std::vector<std::int64_t>{-(std::int64_t{1} << 62)});
  check("mask", {bool_, {3}}, std::vector<std::uint8_t>{1, 0, 1});
  check("none", {f64, {3, 0}}, std::vector<double>{});
  check("halves", {f16, {2}}, std::vector<std::uint16_t>{0x3800, 0xC000});
}

// numpy has no bfloat16, so the file is read byte by byte.
TEST_CASE("Python finds bfloat16 where we wrote it" * doctest::skip(!python().missing.empty())) {
  const TemporaryFolder folder;
  const std::vector<std::uint16_t> bits = {0x3F80, 0xC000, 0x7F80};  // 1, -2, infinity
  const std::vector<executor::checkpoint::TensorBytes> tensors = {tensor("w", bf16, {3}, bits)};
  executor::checkpoint::write_safetensors(folder.file("ours"), tensors, {});
  CHECK(python()(folder, R"(
from safetensors import deserialize
[(name, t)] = deserialize(open("ours", "rb").read())
print(name, t["dtype"], t["shape"], bytes(t["data"]).hex())
)") == "w BF16 [3] 803f00c0807f\n");
}

TEST_CASE("a checkpoint survives a copy by Python" * doctest::skip(!python().missing.empty())) {
  const TemporaryFolder folder;
  auto weight = counted<float>(6, .25);
  std::int64_t replay = 41;
  const std::vector<executor::checkpoint::StorageEntry> storages = {
      {"weight",
       {f32, {6}},
       StorageKind::parameter,
       reinterpret_cast<std::byte*>(weight.data()),
       {}},
      {"replay", {i64, {}}, StorageKind::counter, reinterpret_cast<std::byte*>(&replay), {}}};
  executor::checkpoint::save_checkpoint(folder.file("ours"), storages,
                                        {.seed = 3, .choices_hash = 5});
  python()(folder, R"(
from safetensors import safe_open
from safetensors.numpy import save_file
with safe_open("ours", framework="np") as file:
    tensors = {name: file.get_tensor(name) for name in file.keys()}
    save_file(tensors, "theirs", metadata=file.metadata())
)");
  weight.assign(6, 0);
  replay = 0;
  CHECK(executor::checkpoint::load_checkpoint(folder.file("theirs"), storages,
                                              {.seed = 3, .choices_hash = 5})
            .empty());
  CHECK(weight == counted<float>(6, .25));
  CHECK(replay == 41);
}

}  // namespace python_safetensors_test
