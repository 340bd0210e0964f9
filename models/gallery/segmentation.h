// A U-shaped net that finds things in images, trained on a folder of image files.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace metronome::gallery {

struct SegmentationOptions {
  /// Holds NAME.pgm and NAME.mask.pgm for each image (netpbm's P5, 8 bits, all of one size, whose
  /// sides 4 divides); what is brighter than 127 in a mask is the thing.
  std::string folder;
  std::string checkpoint;  ///< written after each epoch, and gone on from where it exists
  std::int64_t epochs = 10;
  std::int64_t batch = 8;
  std::uint64_t seed = 1;
};

/// Intersection over union on the last quarter of the images, which are not trained on.
struct SegmentationResult {
  double iou = 0;
  double iou_of_average = 0;  ///< of the moving average of the weights
};

/// Trains to the end of the last epoch; `say` gets a line for each. Throws RunError for files that
/// are missing or wrong.
SegmentationResult segment(const SegmentationOptions& options,
                           const std::function<void(const std::string& line)>& say);

}  // namespace metronome::gallery
