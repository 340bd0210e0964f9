// A U-shaped net of convolutions (Ronneberger, Fischer, Brox 2015): each level at half the samples
// of the one above, joined to it on the way back up.
//
//   noisy [64, 1, 32] -- conv1d 8, gelu --+------------------ level 1 ------------------+-- concat,
//   conv1d 8, gelu -- conv1d 1 -- y       |                                             |
//                                         '-- max_pool1d -- level 2 of 16 -- upsample --'
//                                                           (level 3 of 32 inside of it)
//   mse_loss(y, wave) ---- Adam
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/sin.h>

#include "models/gallery/gallery.h"

namespace metronome::gallery {
namespace {

Layer convolution_block(std::int64_t channels) {
  return [=](Value x) { return x.through(conv1d(channels, 3, {.padding = 1})).through(gelu); };
}

/// x in `channels` channels beside what the levels below make of half its samples.
Layer level(std::int64_t channels, int below) {
  return [=](Value x) {
    const Value h = x.through(convolution_block(channels));
    if (below == 0) return h;
    const auto stays = [](Value v) { return v; };
    const auto dives = [=](Value v) {
      return v.through(max_pool1d(2))
          .through(level(2 * channels, below - 1))
          .through(upsample({.scale_factor = 2}));
    };
    return h.split(stays, dives).merge(concat(1)).through(convolution_block(channels));
  };
}

}  // namespace

Example u_net(Element element) {
  constexpr std::int64_t kRows = 64, kSamples = 32;

  Graph g("u_net");
  Value noisy = g.input("noisy", element, {kRows, 1, kSamples});
  Value wave = g.input("wave", element, {kRows, 1, kSamples});

  Value y = noisy.through(level(8, 2)).through(conv1d(1, 1));
  g.minimize(mse_loss(y, wave), Adam{.lr = 3e-3});

  const auto batch = [=](std::int64_t step) -> std::vector<Feed> {
    const at::Tensor time = at::linspace(0, 6.28, kSamples, at::TensorOptions(at::kDouble));
    const at::Tensor pitch = hash_numbers(kRows, 1, step, 1) + 2.0,
                     phase = hash_numbers(kRows, 1, step, 2);
    const at::Tensor clean = at::sin(time * pitch + phase * 3.0);
    const at::Tensor noise = hash_numbers(kRows, kSamples, step);
    return {{"noisy", cast((clean + noise * 0.5).unsqueeze(1), element)},
            {"wave", cast(clean.unsqueeze(1), element)}};
  };
  return {std::move(g), batch};
}

}  // namespace metronome::gallery
