// A U-shaped net on image files: augmented as they are fed, weights averaged, gone on with where it
// was stopped.
//
//   image [8, 1, 32, 32] -- block 8 --+----------------------------------+-- concat -- block 8 --.
//                                     '-- pool -- block 16 -- ... -- up --'                      |
//                                                                    conv2d 1 -- logits ---------'
//   bce_with_logits_loss(logits, mask) + dice_loss(sigmoid(logits), mask) ---- AdamW
//
// Ronneberger, Fischer and Brox, "U-Net", 2015.
#include "models/gallery/segmentation.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/rot90.h>
#include <ATen/ops/stack.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <vector>

#include "executor/metronome.h"
#include "graph/ir/error.h"

namespace metronome::gallery {
namespace {

// ---- the model ---------------------------------------------------------------------------------

Layer block(std::int64_t channels) {
  return [=](Value x) {
    return x.through(conv2d(channels, 3, {.padding = 1})).through(group_norm(4)).through(relu);
  };
}

/// x in `channels` channels beside what the levels below make of a quarter of its pixels.
Layer levels(std::int64_t channels, int below) {
  return [=](Value x) {
    const Value h = x.through(block(channels));
    if (below == 0) return h;
    const Value deep = h.through(max_pool2d(2))
                           .through(levels(2 * channels, below - 1))
                           .through(upsample({.scale_factor = 2}));
    return concat({h, deep}, 1).through(block(channels));
  };
}

struct Net {
  Net(std::int64_t rows, std::int64_t height, std::int64_t width, bool trains) {
    image = g.input("image", f32, {rows, 1, height, width});
    mask = g.input("mask", f32, {rows, 1, height, width});
    const Value logits = image.through(levels(8, 2)).through(conv2d(1, 1));
    g.output("iou", metrics::iou(logits > 0.0, mask > 0.5));
    if (!trains) return;
    g.minimize(bce_with_logits_loss(logits, mask) + dice_loss(sigmoid(logits), mask),
               AdamW{.lr = 3e-3, .weight_decay = 0.05, .clip_norm = 1.0});
    g.scale_weight_decay("**/bias", 0);
    g.scale_weight_decay("**/group_norm*", 0);
    average = g.average("**", {.decay = 0.98});
  }
  Graph g{"segmentation"};
  Value image, mask;
  Average average;
};

// ---- the data ----------------------------------------------------------------------------------

/// [height, width] of bytes.
at::Tensor read_pgm(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::string format;
  std::int64_t width = 0, height = 0, most = 0;
  in >> format >> width >> height >> most;
  in.get();
  if (!in || format != "P5" || most != 255 || width < 1 || height < 1) {
    throw RunError(fmt::format("{} is no image of netpbm's P5 with 8 bits", file.string()));
  }
  at::Tensor pixels = at::empty({height, width}, at::TensorOptions(at::kByte));
  in.read(reinterpret_cast<char*>(pixels.data_ptr<std::uint8_t>()), height * width);
  if (in.gcount() != height * width) {
    throw RunError(
        fmt::format("{} ends after {} of {} pixels", file.string(), in.gcount(), height * width));
  }
  return pixels;
}

struct ImagesAndMasks {
  std::vector<at::Tensor> images, masks;  ///< [1, height, width] in [0, 1]; 0 or 1
};

ImagesAndMasks read_images(const std::string& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".pgm") && !name.ends_with(".mask.pgm")) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  ImagesAndMasks all;
  for (std::filesystem::path file : files) {
    all.images.push_back(read_pgm(file).to(at::kFloat).div(255).unsqueeze(0));
    all.masks.push_back(
        read_pgm(file.replace_extension(".mask.pgm")).gt(127).to(at::kFloat).unsqueeze(0));
    if (all.images.back().sizes() != all.images[0].sizes() ||
        all.masks.back().sizes() != all.images[0].sizes()) {
      throw RunError(fmt::format("{} is of another size than the first image", file.string()));
    }
  }
  return all;
}

/// One of the eight ways to turn and mirror a square.
at::Tensor turn_image(const at::Tensor& image, std::uint32_t way) {
  const at::Tensor mirrored = (way & 4) != 0 ? image.flip(-1) : image;
  return at::rot90(mirrored, way & 3, {-2, -1}).contiguous();
}

}  // namespace

SegmentationResult segment(const SegmentationOptions& options,
                           const std::function<void(const std::string& line)>& say) {
  const ImagesAndMasks all = read_images(options.folder);
  const auto count = static_cast<std::int64_t>(all.images.size()), tested = count / 4;
  if (tested == 0) {
    throw RunError(
        fmt::format("{} holds {} images, but 4 or more are needed", options.folder, count));
  }
  const std::int64_t height = all.images[0].size(1), width = all.images[0].size(2);

  const Net net(options.batch, height, width, true), test(tested, height, width, false);
  // Untuned: the same kernels, and so the same bits, each time that it is started.
  Executable step = compile({{&net.g, {train}}, {&test.g, {evaluate}}}, cpu_replay(),
                            {.seed = options.seed, .tune = Tune::off});
  if (std::filesystem::exists(options.checkpoint)) {
    for (const std::string& line : step.load(options.checkpoint)) say(line);
    say(fmt::format("goes on after step {}", step.replays()));
  }

  const auto evaluated = [&](const Average& with) {
    const auto begin = static_cast<std::ptrdiff_t>(count - tested);
    const auto last = [&](const std::vector<at::Tensor>& of) {
      return at::stack(std::vector<at::Tensor>(of.begin() + begin, of.end()));
    };
    step.evaluate({{test.image, last(all.images)}, {test.mask, last(all.masks)}}, {.with = with});
    return step.read("iou").item<double>();
  };

  const BatchOrder order(count - tested, options.batch, options.seed, LastBatch::drop);
  SegmentationResult result;
  while (step.replays() < options.epochs * order.batches_per_epoch()) {
    const auto [epoch, position] = order.at(step.replays());
    const std::vector<std::int64_t> indices = order.epoch(epoch);
    // The random numbers depend on the step alone, so a run that goes on sees what one that was not
    // stopped does.
    std::seed_seq sequence{options.seed, static_cast<std::uint64_t>(step.replays())};
    std::mt19937 random(sequence);
    std::vector<at::Tensor> images, masks;
    for (std::int64_t i = 0; i < options.batch; ++i) {
      const auto which =
          static_cast<std::size_t>(indices[static_cast<std::size_t>(position * options.batch + i)]);
      const auto way = static_cast<std::uint32_t>(random() & (height == width ? 7 : 4));
      images.push_back(turn_image(all.images[which], way));
      masks.push_back(turn_image(all.masks[which], way));
    }
    step.run({{net.image, at::stack(images)}, {net.mask, at::stack(masks)}});

    if (position + 1 < order.batches_per_epoch()) continue;
    result = {evaluated({}), evaluated(net.average)};
    say(fmt::format("epoch {:>3}  loss {:.4f}  iou {:.3f}, of averages {:.3f}", epoch + 1,
                    step.read_scalar(net.g.loss()), result.iou, result.iou_of_average));
    step.save(options.checkpoint);
  }
  return result;
}

}  // namespace metronome::gallery
