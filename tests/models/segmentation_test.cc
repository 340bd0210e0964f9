// The gallery's net on image files: it learns, its averages are evaluated, and killed it goes on as
// if it had not been.
#include "models/gallery/segmentation.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "graph/ir/error.h"
#include "tests/doctest.h"
#include "tests/error_of.h"
#include "tests/executor/temporary_folder.h"

namespace metronome::segmentation_test {
namespace {

constexpr int kSide = 32, kImages = 64;

void write_pgm(const std::string& file, const std::vector<unsigned char>& pixels) {
  std::ofstream out(file, std::ios::binary);
  out << "P5\n" << kSide << " " << kSide << "\n255\n";
  out.write(reinterpret_cast<const char*>(pixels.data()),
            static_cast<std::streamsize>(pixels.size()));
}

/// Discs, brighter than what is around them by less than the noise.
void write_images(const TemporaryFolder& folder) {
  std::mt19937 random(3);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int k = 0; k < kImages; ++k) {
    const int x0 = 8 + below(16), y0 = 8 + below(16), radius = 4 + below(5);
    std::vector<unsigned char> image, mask;
    for (int y = 0; y < kSide; ++y) {
      for (int x = 0; x < kSide; ++x) {
        const bool inside = (x - x0) * (x - x0) + (y - y0) * (y - y0) <= radius * radius;
        image.push_back(static_cast<unsigned char>((inside ? 110 : 60) + below(80)));
        mask.push_back(inside ? 255 : 0);
      }
    }
    write_pgm(folder.file(fmt::format("{:02}.pgm", k)), image);
    write_pgm(folder.file(fmt::format("{:02}.mask.pgm", k)), mask);
  }
}

/// The program as a process, whose lines can be read.
class Process {
 public:
  Process(const std::string& folder, const std::string& checkpoint, const std::string& epochs) {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    child_ = fork();
    REQUIRE(child_ >= 0);
    if (child_ == 0) {
      dup2(ends[1], STDOUT_FILENO);
      close(ends[0]), close(ends[1]);
      const char* program = "models/segmentation";
      execl(program, program, folder.c_str(), checkpoint.c_str(), epochs.c_str(), nullptr);
      _exit(127);
    }
    close(ends[1]);
    lines_ = fdopen(ends[0], "r");
  }
  ~Process() { std::fclose(lines_); }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  /// Empty at the end.
  std::string line() {
    char text[512];
    return std::fgets(text, sizeof text, lines_) == nullptr ? "" : text;
  }
  void kill() { ::kill(child_, SIGKILL); }
  int status() {
    int status = 0;
    waitpid(child_, &status, 0);
    return status;
  }

 private:
  pid_t child_ = -1;
  std::FILE* lines_ = nullptr;
};

std::string bytes_of(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST_CASE(
    "a run that is killed and goes on ends in the bits of one that was not, and finds discs") {
  const TemporaryFolder folder;
  const TemporaryFolder images;
  write_images(images);
  const std::string whole = folder.file("whole.safetensors"), cut = folder.file("cut.safetensors");
  const std::string at = images.path().string();

  Process undisturbed(at, whole, "10");
  std::string last;
  for (std::string line = undisturbed.line(); !line.empty(); line = undisturbed.line()) last = line;
  CHECK(undisturbed.status() == 0);
  MESSAGE(last);

  Process killed(at, cut, "10");
  for (int epoch = 0; epoch < 4; ++epoch) REQUIRE(killed.line().starts_with("epoch "));
  killed.kill();
  CHECK(WIFSIGNALED(killed.status()));
  Process resumed(at, cut, "10");
  CHECK(resumed.line().starts_with("goes on after step "));
  std::string last_of_resumed;
  for (std::string line = resumed.line(); !line.empty(); line = resumed.line()) {
    last_of_resumed = line;
  }
  CHECK(resumed.status() == 0);
  CHECK(last_of_resumed == last);
  CHECK(bytes_of(cut) == bytes_of(whole));

  double iou = 0, of_average = 0;
  REQUIRE(std::sscanf(last.c_str(), "epoch %*d loss %*f iou %lf, of averages %lf", &iou,
                      &of_average) == 2);
  CHECK(iou > 0.8);
  CHECK(of_average > 0.8);
}

TEST_CASE("wrong folders are told") {
  const TemporaryFolder folder;
  const auto refusal = [&] {
    return tests::error_of<RunError>([&] {
      gallery::segment({.folder = folder.path().string(), .checkpoint = folder.file("c")},
                       [](const std::string&) {});
    });
  };
  CHECK(refusal() == folder.path().string() + " holds 0 images, but 4 or more are needed");
  write_pgm(folder.file("a.pgm"), std::vector<unsigned char>(100));
  CHECK(refusal() == folder.file("a.pgm") + " ends after 100 of 1024 pixels");
  std::ofstream(folder.file("a.pgm")) << "GIF89a";
  CHECK(refusal() == folder.file("a.pgm") + " is no image of netpbm's P5 with 8 bits");
}

}  // namespace
}  // namespace metronome::segmentation_test
