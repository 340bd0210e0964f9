// segmentation FOLDER CHECKPOINT [EPOCHS]: trains on a folder of image files.
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <string>

#include "models/gallery/segmentation.h"

int main(int argc, char** argv) {
  if (argc < 3 || argc > 4) {
    fmt::print(stderr,
               "usage: segmentation FOLDER CHECKPOINT [EPOCHS], with NAME.pgm and NAME.mask.pgm in "
               "FOLDER\n");
    return 2;
  }
  try {
    metronome::gallery::SegmentationOptions options{.folder = argv[1], .checkpoint = argv[2]};
    if (argc == 4) options.epochs = std::stoll(argv[3]);
    metronome::gallery::segment(options, [](const std::string& line) {
      fmt::print("{}\n", line);
      std::fflush(stdout);
    });
  } catch (const std::exception& error) {
    fmt::print(stderr, "segmentation: {}\n", error.what());
    return 1;
  }
}
