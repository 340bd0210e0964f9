#include "executor/checkpoint/checkpoint.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>

#include "executor/checkpoint/safetensors.h"
#include "graph/ir/error.h"
#include "tests/executor/temporary_folder.h"

namespace checkpoint_test {
using namespace metronome;

namespace {

using Lines = std::vector<std::string>;

// Storages over memory of their own. Initial values are zero bytes; the numbers given are what
// training has made of them.
class Storages {
 public:
  Storages& add(std::string path, StorageKind kind, std::vector<float> numbers) {
    const Type type{f32, {static_cast<std::int64_t>(numbers.size())}};
    return add(std::move(path), kind, type, std::as_bytes(std::span(numbers)));
  }
  Storages& counter(std::string path, std::int64_t number) {
    return add(std::move(path), StorageKind::counter, {i64, {}},
               std::as_bytes(std::span(&number, 1)));
  }
  Storages& add(std::string path, StorageKind kind, Type type, std::span<const std::byte> bytes) {
    auto& memory = memory_[path];
    memory.assign(bytes.begin(), bytes.end());
    const auto zero = [size = memory.size()](std::byte* data) {
      std::fill_n(data, size, std::byte{});
    };
    list_.push_back({path, std::move(type), kind, nullptr, zero});
    return *this;
  }

  // Returns the list over this object's own memory, copied or not.
  std::vector<executor::checkpoint::StorageEntry>& list() {
    for (executor::checkpoint::StorageEntry& storage : list_)
      storage.data = memory_.at(storage.path).data();
    return list_;
  }
  const std::map<std::string, std::vector<std::byte>>& memory() const { return memory_; }
  template <class T = float>
  std::vector<T> numbers(const std::string& path) const {
    const auto& bytes = memory_.at(path);
    const auto* first = reinterpret_cast<const T*>(bytes.data());
    return {first, first + bytes.size() / sizeof(T)};
  }

 private:
  std::map<std::string, std::vector<std::byte>> memory_;
  std::vector<executor::checkpoint::StorageEntry> list_;
};

constexpr auto parameter = StorageKind::parameter;
constexpr auto buffer = StorageKind::buffer;
constexpr auto state = StorageKind::state;
constexpr auto moment = StorageKind::moment;

Storages trained() {
  Storages s;
  s.add("linear/weight", parameter, {1, 2, 3, 4}).add("norm/mean", buffer, {5, 6});
  s.add("h", state, {7, 8, 9}).counter("replay", 12).counter("update", 10).counter("seed", 42);
  s.add("optimizer/exp_avg/linear/weight", moment, {.1f, .2f, .3f, .4f});
  s.add("optimizer/exp_avg_sq/linear/weight", moment, {.5f, .6f, .7f, .8f});
  return s;
}

Storages fresh() {
  Storages s;
  s.add("linear/weight", parameter, {0, 0, 0, 0}).add("norm/mean", buffer, {0, 0});
  s.add("h", state, {0, 0, 0}).counter("replay", 0).counter("update", 0).counter("seed", 42);
  s.add("optimizer/exp_avg/linear/weight", moment, {0, 0, 0, 0});
  s.add("optimizer/exp_avg_sq/linear/weight", moment, {0, 0, 0, 0});
  return s;
}

constexpr executor::checkpoint::CheckpointInfo kInfo = {.seed = 42, .choices_hash = 0xABC};

struct Saved {
  TemporaryFolder folder;
  std::string file = folder.file("model.safetensors");

  explicit Saved(Storages storages = trained(), executor::checkpoint::CheckpointInfo info = kInfo) {
    executor::checkpoint::save_checkpoint(file, storages.list(), info);
  }
  // Loading says why not, and changes nothing.
  void refuses(Storages& storages, const std::string& reason) const {
    const auto before = storages.memory();
    CHECK_THROWS_WITH_AS(executor::checkpoint::load_checkpoint(file, storages.list(), kInfo),
                         (file + ": cannot be loaded: " + reason).c_str(), RunError);
    CHECK((storages.memory() == before));  // bytes, which have no text
  }
  void refuses(Storages&& storages, const std::string& reason) const { refuses(storages, reason); }
  // Writes the file again with other metadata.
  void edit(const std::function<void(executor::checkpoint::Metadata&)>& change) const {
    Storages s = trained();
    executor::checkpoint::Metadata metadata =
        executor::checkpoint::SafetensorsFile(file).metadata();
    change(metadata);
    std::vector<executor::checkpoint::TensorBytes> tensors;
    for (const executor::checkpoint::StorageEntry& storage : s.list()) {
      if (storage.path == "seed") continue;
      tensors.push_back({storage.path, storage.type, {storage.data, storage.type.bytes()}});
    }
    executor::checkpoint::write_safetensors(file, tensors, metadata);
  }
};

}  // namespace

TEST_CASE("everything comes back, without a notice") {
  const Saved saved;
  Storages s = fresh();
  CHECK(executor::checkpoint::load_checkpoint(saved.file, s.list(), kInfo) == Lines{});
  CHECK((s.memory() == trained().memory()));
}

TEST_CASE("the file holds each storage under its path and the rest as metadata") {
  const Saved saved;
  const executor::checkpoint::SafetensorsFile file(saved.file);
  Lines names;
  for (const auto& [name, entry] : file.tensors())
    names.push_back(name + " " + to_string(entry.type));
  CHECK(names == Lines{"h f32[3]", "linear/weight f32[4]", "norm/mean f32[2]",
                       "optimizer/exp_avg/linear/weight f32[4]",
                       "optimizer/exp_avg_sq/linear/weight f32[4]", "replay i64[]",
                       "update i64[]"});
  executor::checkpoint::Metadata metadata = file.metadata();
  CHECK(metadata.at("fingerprint").size() == 16);
  CHECK(metadata.at("checksum").size() == 16);
  metadata.erase("fingerprint");
  metadata.erase("checksum");
  CHECK(metadata == executor::checkpoint::Metadata{{"format", "metronome checkpoint"},
                                                   {"version", "1"},
                                                   {"seed", "42"},
                                                   {"choices", "0000000000000abc"},
                                                   {"states", "h\n"}});
}

TEST_CASE("the fingerprint is of parameters and buffers only, in any order") {
  const auto fingerprint = [](Storages s) {
    const Saved saved(std::move(s));
    return executor::checkpoint::SafetensorsFile(saved.file).metadata().at("fingerprint");
  };
  const auto model = [](float weight, float mean) {
    return Storages().add("w", parameter, {weight}).add("m", buffer, {mean});
  };
  CHECK(fingerprint(model(1, 2)) == fingerprint(model(1, 2)));
  CHECK(
      fingerprint(model(1, 2)) ==
      fingerprint(Storages().counter("replay", 5).add("m", buffer, {2}).add("w", parameter, {1})));
  CHECK(fingerprint(model(1, 2)) != fingerprint(model(1, 3)));
  CHECK(fingerprint(model(1, 2)) != fingerprint(model(2, 2)));
  CHECK(fingerprint(model(1, 2)) != fingerprint(Storages().add("w", parameter, {1, 2})));
}

TEST_CASE("without a seed storage the seed of the options is recorded") {
  const Saved saved(Storages().add("w", parameter, {1}), {.seed = ~0ull, .choices_hash = 0});
  CHECK(executor::checkpoint::SafetensorsFile(saved.file).metadata().at("seed") ==
        "18446744073709551615");
}

TEST_CASE("a state of another shape or type, or a new one, starts from its initial value") {
  const Saved saved;
  Storages s;
  s.add("linear/weight", parameter, {0, 0, 0, 0}).add("norm/mean", buffer, {0, 0});
  s.add("h", state, {3, 3}).add("new", state, {4}).counter("replay", 0).counter("update", 0);
  s.add("optimizer/exp_avg/linear/weight", moment, {0, 0, 0, 0});
  s.add("optimizer/exp_avg_sq/linear/weight", moment, {0, 0, 0, 0});
  CHECK(
      executor::checkpoint::load_checkpoint(saved.file, s.list(), kInfo) ==
      Lines{
          saved.file + ": state \"h\" is f32[2] here and f32[3] in the file: it starts from its "
                       "initial value",
          saved.file +
              ": state \"new\" is f32[1] here and missing in the file: it starts from its initial "
              "value"});
  CHECK(s.numbers("h") == std::vector<float>{0, 0});
  CHECK(s.numbers("new") == std::vector<float>{0});
  CHECK(s.numbers("linear/weight") == std::vector<float>{1, 2, 3, 4});
}

TEST_CASE("an executable without optimizer and counters ignores the file's, in one line") {
  const Saved saved;
  Storages s;
  s.add("linear/weight", parameter, {0, 0, 0, 0}).add("norm/mean", buffer, {0, 0});
  s.add("h", state, {0, 0, 0});
  CHECK(executor::checkpoint::load_checkpoint(saved.file, s.list(), kInfo) ==
        Lines{saved.file + ": ignored 2 tensors of an optimizer that is not here"});
  CHECK(s.numbers("linear/weight") == std::vector<float>{1, 2, 3, 4});
  CHECK(s.numbers("h") == std::vector<float>{7, 8, 9});
}

TEST_CASE("moments that the file lacks start from their initial values, even over trained ones") {
  Storages without;
  without.add("linear/weight", parameter, {1, 2, 3, 4}).add("norm/mean", buffer, {5, 6});
  without.add("h", state, {7, 8, 9}).counter("replay", 12).counter("update", 10);
  const Saved saved(std::move(without));
  Storages s = trained();
  CHECK(executor::checkpoint::load_checkpoint(saved.file, s.list(), kInfo) ==
        Lines{saved.file +
              ": lacks 2 of the optimizer's 2 tensors, \"optimizer/exp_avg/linear/weight\", "
              "\"optimizer/exp_avg_sq/linear/weight\": they start from their initial values"});
  CHECK(s.numbers("optimizer/exp_avg/linear/weight") == std::vector<float>{0, 0, 0, 0});
  CHECK(s.numbers("optimizer/exp_avg_sq/linear/weight") == std::vector<float>{0, 0, 0, 0});
  for (const char* const more : {"optimizer/step/a", "optimizer/step/b", "optimizer/step/c"}) {
    s.add(more, moment, {1});
  }
  CHECK(executor::checkpoint::load_checkpoint(saved.file, s.list(), kInfo) ==
        Lines{saved.file +
              ": lacks 5 of the optimizer's 5 tensors, \"optimizer/exp_avg/linear/weight\", "
              "\"optimizer/exp_avg_sq/linear/weight\", \"optimizer/step/a\" and 2 more: they "
              "start from their initial values"});
}

TEST_CASE("another optimizer: its moments are ignored, these start anew") {
  const Saved saved;
  Storages s;
  s.add("linear/weight", parameter, {0, 0, 0, 0}).add("norm/mean", buffer, {0, 0});
  s.add("h", state, {0, 0, 0}).counter("replay", 0).counter("update", 0);
  s.add("optimizer/momentum/linear/weight", moment, {3, 3, 3, 3});
  CHECK(executor::checkpoint::load_checkpoint(saved.file, s.list(), kInfo) ==
        Lines{saved.file + ": ignored 2 tensors of an optimizer that is not here",
              saved.file +
                  ": lacks 1 of the optimizer's 1 tensors, \"optimizer/momentum/linear/weight\": "
                  "they start from their initial values"});
  CHECK(s.numbers("optimizer/momentum/linear/weight") == std::vector<float>{0, 0, 0, 0});
}

TEST_CASE("another seed and other kernel choices are said, and the file's seed holds") {
  const Saved saved;
  Storages s = fresh();
  CHECK(
      executor::checkpoint::load_checkpoint(saved.file, s.list(),
                                            {.seed = 7, .choices_hash = 0xDEF}) ==
      Lines{saved.file + ": was saved under seed 42, not 7: random numbers go on with 42",
            saved.file +
                ": was saved under kernel choices 0000000000000abc, not 0000000000000def: bits may "
                "differ"});
  CHECK(s.numbers<std::int64_t>("seed") == std::vector<std::int64_t>{42});
}

TEST_CASE("a parameter, buffer or counter that differs is an error with both types") {
  const Saved saved;
  SUBCASE("of another shape") {
    Storages s;
    s.add("linear/weight", parameter, {0, 0}).add("norm/mean", buffer, {0, 0}).add("h", state, {0});
    saved.refuses(
        s,
        "it is of another model: parameter \"linear/weight\" is f32[2] here and f32[4] in "
        "the file");
  }
  SUBCASE("of another element type") {
    const std::array<double, 2> mean = {};
    Storages s;
    s.add("linear/weight", parameter, {0, 0, 0, 0}).add("h", state, {0});
    s.add("norm/mean", buffer, {f64, {2}}, std::as_bytes(std::span(mean)));
    saved.refuses(
        s, "it is of another model: buffer \"norm/mean\" is f64[2] here and f32[2] in the file");
  }
  SUBCASE("of the same bytes in another shape") {
    const std::array<float, 4> weight = {};
    Storages s;
    s.add("linear/weight", parameter, {f32, {2, 2}}, std::as_bytes(std::span(weight)));
    s.add("norm/mean", buffer, {0, 0}).add("h", state, {0});
    saved.refuses(
        s,
        "it is of another model: parameter \"linear/weight\" is f32[2, 2] here and f32[4] "
        "in the file");
  }
  SUBCASE("missing") {
    saved.refuses(fresh().add("linear/bias", parameter, {0}),
                  "it is of another model: parameter \"linear/bias\" is f32[1] here and missing in "
                  "the file");
    saved.refuses(
        fresh().counter("skipped", 0),
        "it is of another model: counter \"skipped\" is i64[] here and missing in the file");
  }
}

TEST_CASE("tensors that belong to nothing are an error; the first three are named") {
  const Saved saved(trained().add("u", state, {1}).add("v", state, {1, 2}));
  saved.refuses(fresh(),
                "it is of another model: \"u\" is f32[1] in the file and nothing here; \"v\" is "
                "f32[2] in the file and nothing here");
  saved.refuses(
      fresh().add("a", parameter, {0}).add("b", buffer, {0, 0}),
      "it is of another model: parameter \"a\" is f32[1] here and missing in the file; "
      "buffer \"b\" is f32[2] here and missing in the file; \"u\" is f32[1] in the file and "
      "nothing here; and 1 more");
}

TEST_CASE("a file that is no checkpoint of this version says so") {
  const Saved saved;
  const std::string no_checkpoint =
      "it is a safetensors file, but no Metronome checkpoint: its metadata has ";
  const auto refuses = [&](const std::function<void(executor::checkpoint::Metadata&)>& change,
                           const std::string& reason) {
    const std::string before = read_file(saved.file);
    saved.edit(change);
    saved.refuses(fresh(), reason);
    write_file(saved.file, before);
  };
  refuses([](executor::checkpoint::Metadata& m) { m.erase("format"); },
          no_checkpoint +
              "nothing as \"format\", not \"metronome checkpoint\"; weights of other programs are "
              "loaded with LoadOptions");
  refuses([](executor::checkpoint::Metadata& m) { m.clear(); },
          no_checkpoint +
              "nothing as \"format\", not \"metronome checkpoint\"; weights of other programs are "
              "loaded with LoadOptions");
  refuses([](executor::checkpoint::Metadata& m) { m["format"] = "pt"; },
          no_checkpoint +
              "\"pt\" as \"format\", not \"metronome checkpoint\"; weights of other programs are "
              "loaded with LoadOptions");
  refuses([](executor::checkpoint::Metadata& m) { m["version"] = "2"; },
          "it is a checkpoint of version 2, and this program reads version 1");
  refuses([](executor::checkpoint::Metadata& m) { m.erase("seed"); },
          "its metadata has no \"seed\"");
  refuses([](executor::checkpoint::Metadata& m) { m["seed"] = "-1"; },
          "its metadata has \"-1\" as \"seed\", which must be a number");
  refuses([](executor::checkpoint::Metadata& m) { m["choices"] = "12 "; },
          "its metadata has \"12 \" as \"choices\", which must be a number");
  refuses([](executor::checkpoint::Metadata& m) { m["fingerprint"] = ""; },
          "its metadata has \"\" as \"fingerprint\", which must be a number");
}

TEST_CASE("numbers that differ from those that were saved are found") {
  const Saved saved;
  const auto differs = [&](const std::string& key, const std::string& what) {
    const executor::checkpoint::Metadata before =
        executor::checkpoint::SafetensorsFile(saved.file).metadata();
    saved.edit([&](executor::checkpoint::Metadata& m) { m[key] = "1234"; });
    saved.refuses(fresh(),
                  fmt::format("it is damaged: the {} is {}, but was 0000000000001234 when it "
                              "was saved",
                              what, before.at(key)));
    saved.edit([&](executor::checkpoint::Metadata& m) { m = before; });
  };
  differs("fingerprint", "fingerprint of its parameters and buffers");
  differs("checksum", "checksum of its other tensors");
}

TEST_CASE("a bool that is neither true nor false is refused") {
  const std::array<std::byte, 3> mask = {std::byte{1}, std::byte{7}, std::byte{0}};
  const Saved saved(Storages().add("mask", buffer, {bool_, {3}}, mask));
  saved.refuses(Storages().add("mask", buffer, {bool_, {3}}, std::array<std::byte, 3>{}),
                "\"mask\" is a bool tensor, but has a byte of 7, not 0 or 1");
}

TEST_CASE("one flipped bit anywhere is refused, and nothing is changed") {
  const Saved saved;
  const std::string whole = read_file(saved.file);
  const auto before = fresh().memory();
  std::size_t loaded = 0;
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
    write_file(saved.file, flipped);
    Storages s = fresh();
    try {
      executor::checkpoint::load_checkpoint(saved.file, s.list(), kInfo);
      ++loaded;
      CAPTURE(flipped);
      CHECK((s.memory() == trained().memory()));  // "abc" and "ABC" are one number
    } catch (const RunError&) {
      CHECK((s.memory() == before));
    }
  }
  CHECK(loaded < 40);
}

TEST_CASE("a file that another process cuts short between check and copy resets everything") {
  const Saved saved;
  Storages s = trained();
  const auto size = std::filesystem::file_size(saved.file);
  for (executor::checkpoint::StorageEntry& storage : s.list()) {
    if (storage.path != "h") continue;
    storage.type = {f32, {1}};  // is reset first of all: the moment for the other process
    storage.reset = [&, reset = storage.reset](std::byte* data) {
      std::filesystem::resize_file(saved.file, size - 56);
      reset(data);
    };
  }
  CHECK_THROWS_WITH_AS(
      executor::checkpoint::load_checkpoint(saved.file, s.list(), kInfo),
      fmt::format(
          "{}: cannot be loaded: it had {} bytes when it was opened, but ends at byte {} now; "
          "as it had been checked before, every storage is back at its initial value",
          saved.file, size, size - 56)
          .c_str(),
      RunError);
  for (const auto& [path, bytes] : s.memory()) {
    CAPTURE(path);
    CHECK(std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{}; }));
  }
}

}  // namespace checkpoint_test
