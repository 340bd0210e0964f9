#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "executor/checkpoint/checkpoint.h"
#include "tests/executor/temporary_folder.h"

using namespace metronome;

namespace {

constexpr std::size_t kElements = 2'000'000;  // 8 MB: most of a save is writing

// A model whose every number is its version.
struct Model {
  std::vector<float> weight = std::vector<float>(kElements);
  std::int64_t replay = 0;

  std::vector<executor::checkpoint::StorageEntry> storages() {
    return {{"weight",
             {f32, {static_cast<std::int64_t>(kElements)}},
             StorageKind::parameter,
             reinterpret_cast<std::byte*>(weight.data()),
             {}},
            {"replay", {i64, {}}, StorageKind::counter, reinterpret_cast<std::byte*>(&replay), {}}};
  }
  void save(const std::string& file, std::int64_t version) {
    std::ranges::fill(weight, static_cast<float>(version));
    replay = version;
    executor::checkpoint::save_checkpoint(file, storages(), {});
  }
  bool whole() const {
    return std::ranges::all_of(weight, [&](float w) { return w == static_cast<float>(replay); });
  }
};

// A child that saves version after version, from `first` on, until it is killed.
pid_t start_saving(const std::string& file, std::int64_t first) {
  const pid_t child = fork();
  if (child != 0) return child;
  try {
    Model model;
    for (std::int64_t version = first;; ++version) model.save(file, version);
  } catch (...) {
  }
  _exit(1);
}

}  // namespace

TEST_CASE("a save that is killed leaves a whole checkpoint, the old or the new one") {
  const TemporaryFolder folder;
  const std::string file = folder.file("model.safetensors");
  Model model;
  const auto begin = std::chrono::steady_clock::now();
  model.save(file, 0);
  const std::chrono::duration<double> save = std::chrono::steady_clock::now() - begin;

  std::mt19937 random(1);
  std::uniform_real_distribution<double> moment(0, 3);  // in saves
  std::int64_t version = 0;
  for (int kill_number = 0; kill_number < 20; ++kill_number) {
    const pid_t child = start_saving(file, version + 1);
    REQUIRE(child > 0);
    std::this_thread::sleep_for(save * moment(random));
    REQUIRE(kill(child, SIGKILL) == 0);
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE(WIFSIGNALED(status));  // it was saving to the end

    Model loaded;
    CHECK(executor::checkpoint::load_checkpoint(file, loaded.storages(), {}).empty());
    CHECK(loaded.whole());
    CHECK(loaded.replay >= version);
    version = loaded.replay;
  }
  MESSAGE(version << " saves finished, " << folder.files() - 1 << " of 20 kills fell into one");
  CHECK(folder.files() > 1);  // else no kill fell into a save, and nothing was shown

  // The files that killed saves left harm neither the next save nor the next load.
  model.save(file, version + 1);
  Model loaded;
  CHECK(executor::checkpoint::load_checkpoint(file, loaded.storages(), {}).empty());
  CHECK(loaded.replay == version + 1);
}
