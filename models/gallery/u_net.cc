// A U-shaped net of dense layers: narrow at the bottom, each level joined to what comes back up.
//
//   noisy [64, 32] --+------------------------- level 1 -------------------------+-- concat --
//   linear -- y
//                    '-- linear 16, gelu --+---- level 2 ----+-- concat, linear -'
//                                          '-- linear 8, gelu -- ... --'
//   mse_loss(y, wave) ---- Adam
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "models/gallery/gallery.h"

namespace metronome::gallery {
namespace {

/// x beside what a narrower level makes of it, joined to the width of x.
Layer level(int below) {
  return [=](Value x) {
    const std::int64_t width = x.size(-1);
    const auto stays = [](Value v) { return v; };
    const auto dives = [=](Value v) {
      const Value narrow = v.through(linear(width / 2)).through(gelu);
      return below > 0 ? narrow.through(level(below - 1)) : narrow;
    };
    return x.split(stays, dives).merge(concat(-1)).through(linear(width));
  };
}

}  // namespace

Example u_net(Element element) {
  constexpr std::int64_t kRows = 64, kSamples = 32;

  Graph g("u_net");
  Value noisy = g.input("noisy", element, {kRows, kSamples});
  Value wave = g.input("wave", element, {kRows, kSamples});

  Value y = noisy.through(level(2));
  g.minimize(mse_loss(y, wave), Adam{.lr = 3e-3});

  const auto batch = [=](std::int64_t step) -> std::vector<Feed> {
    const at::Tensor time = at::linspace(0, 6.28, kSamples, at::TensorOptions(at::kDouble));
    const at::Tensor pitch = scattered(kRows, 1, step, 1) + 2.0,
                     phase = scattered(kRows, 1, step, 2);
    const at::Tensor clean = at::sin(time * pitch + phase * 3.0);
    const at::Tensor noise = scattered(kRows, kSamples, step);
    return {{"noisy", cast(clean + noise * 0.5, element)}, {"wave", cast(clean, element)}};
  };
  return {std::move(g), batch};
}

}  // namespace metronome::gallery
