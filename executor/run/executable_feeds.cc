// What the feeds of a step mean: which inputs, which plan, and the copies.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "executor/engine/tensor_copy.h"
#include "executor/run/executable_impl.h"
#include "graph/ir/error.h"
#include "ops/reference/table.h"

namespace metronome {

std::size_t Executable::Impl::input_of(const Feed& feed) const {
  if (feed.input.present()) return input_of(feed.input).input;
  if (!feed.name.empty()) return input_of(feed.name).input;
  throw RunError(
      fmt::format("{}: a feed says no input: its value is absent and its name empty; "
                  "the inputs are {}",
                  prefix(), input_names()));
}

void Executable::Impl::resolve(std::span<const Feed> feeds) {
  ++fed.call;
  fed.inputs.clear();
  for (std::size_t i = 0; i < feeds.size(); ++i) {
    const std::size_t input = input_of(feeds[i]);
    if (fed.now(input)) {
      const auto before = std::ranges::find(fed.inputs, input) - fed.inputs.begin();
      throw RunError(
          fmt::format("{}: \"{}\" is fed twice in one call, by its feeds {} and {}; give "
                      "each input once",
                      prefix(), input_memory({0, input}).name, before, i));
    }
    fed.in[input] = fed.call;
    fed.inputs.push_back(input);
  }
}

std::size_t Executable::Impl::pick(std::span<const Feed> feeds) const {
  if (takes(shape, feeds)) return shape;
  for (std::size_t k = 0; k < declared.size(); ++k) {
    if (takes(k, feeds)) return k;
  }
  refuse_feeds(feeds);
}

bool Executable::Impl::takes(std::size_t k, std::span<const Feed> feeds) const {
  for (std::size_t i = 0; i < feeds.size(); ++i) {
    if (!executor::fits(feeds[i].tensor, input_memory({k, fed.inputs[i]}).type)) return false;
  }
  return true;
}

void Executable::Impl::refuse_feeds(std::span<const Feed> feeds) const {
  std::vector<executor::BatchShapes::Fed> shapes_fed;
  for (std::size_t i = 0; i < feeds.size(); ++i) {
    const at::Tensor& tensor = feeds[i].tensor;
    std::vector<std::string> types;  // one for each shape of this input
    for (std::size_t k = 0; k < declared.size(); ++k) {
      std::string type = to_string(input_memory({k, fed.inputs[i]}).type);
      if (std::ranges::find(types, type) == types.end()) types.push_back(std::move(type));
    }
    const executor::InputMemory& any = input_memory({0, fed.inputs[i]});
    const bool right_but_for_shape = tensor.defined() && tensor.device().is_cpu() &&
                                     tensor.layout() == at::kStrided &&
                                     tensor.scalar_type() == to_torch(any.type.element);
    const bool takes_one = types.size() == 1 && !executor::fits(tensor, any.type);
    if (!right_but_for_shape || takes_one) {
      const bool other_batch = right_but_for_shape && declared.size() == 1 &&
                               executor::differs_in_batch(tensor.sizes(), any.type.shape);
      executor::refuse(
          tensor, fmt::format("{}", fmt::join(types, " or ")),
          fmt::format("{}: feed of \"{}\"", prefix(), any.name),
          other_batch ? "; for batches of several sizes declare the graph once for each size and "
                        "compile them together: compile({&a, &b})"
                      : "");
    }
    shapes_fed.push_back({any.name, {tensor.sizes().begin(), tensor.sizes().end()}});
  }
  throw RunError(fmt::format("{}: {}", prefix(), shapes->refusal(shapes_fed)));
}

void Executable::Impl::require_filled(const Planned& plan) const {
  if (plan.missing == 0) return;
  for (std::size_t i = 0; i < plan.inputs.size(); ++i) {
    const executor::InputMemory& input = input_memory({plan.shape, i});
    if (input.filled || !plan.inputs[i] || fed.now(i)) continue;
    throw RunError(fmt::format("{}: input \"{}\" {} was never fed", prefix(), input.name,
                               to_string(input.type)));
  }
}

void Executable::Impl::mark_filled(std::size_t index) {
  if (memory.inputs[index].filled) return;
  memory.inputs[index].filled = true;
  for (Planned& plan : plans) {
    for (std::size_t i = 0; i < plan.inputs.size(); ++i) {
      if (plan.inputs[i] && memory.inputs_of[plan.shape][i] == index) --plan.missing;
    }
  }
}

/// Of feeds that lie in the memory of another input that this call feeds too, as where two are
/// swapped, copies: each input gets what its tensor held when the call began. Empty, and without an
/// allocation, where there are none.
std::vector<at::Tensor> Executable::Impl::set_aside(std::size_t k,
                                                    std::span<const Feed> feeds) const {
  std::vector<at::Tensor> aside;
  if (memory.handed_out.empty()) return aside;  // no tensor shows the memory of an input
  for (std::size_t f = 0; f < feeds.size(); ++f) {
    const executor::Extent bytes = executor::extent_of(feeds[f].tensor);
    auto place = std::ranges::upper_bound(memory.handed_out, bytes.begin, {},
                                          [&](const executor::HandedOut& h) { return h.end; });
    for (; place != memory.handed_out.end() && place->begin < bytes.end; ++place) {
      const auto& own = memory.inputs_of[k];
      const auto written = std::ranges::find(own, place->input);
      if (written == own.end()) continue;  // of another shape
      const auto input = static_cast<std::size_t>(written - own.begin());
      if (input == fed.inputs[f] || !fed.now(input)) continue;
      aside.resize(feeds.size());
      aside[f] = feeds[f].tensor.detach().clone();
    }
  }
  return aside;
}

/// A large feed is copied in parts, each of which the engine may send on while the next is copied.
void Executable::Impl::copy_feed(std::size_t index, const at::Tensor& from) {
  constexpr std::size_t kPart = 1 << 20;  // bytes; its copy takes far longer than telling of it
  const Type& type = memory.inputs[index].type;
  const std::size_t bytes = type.bytes();
  std::byte* const to = engine->feed(index);
  const std::byte* const stored = executor::stored_bytes(from);
  if (stored == to) return;  // it was filled in place
  const bool apart = stored != nullptr && (to + bytes <= stored || stored + bytes <= to);
  if (!apart) {
    executor::copy_into(to, from, type);
    return engine->fed(index, bytes);
  }
  for (std::size_t at = 0; at < bytes; at += kPart) {
    const std::size_t part = std::min(kPart, bytes - at);
    std::memcpy(to + at, stored + at, part);
    engine->fed(index, at + part);
  }
}

void Executable::Impl::copy_feeds(std::size_t k, std::span<const Feed> feeds) {
  const std::vector<at::Tensor> aside = set_aside(k, feeds);
  for (std::size_t f = 0; f < feeds.size(); ++f) {
    const bool moved = !aside.empty() && aside[f].defined();
    const at::Tensor& from = moved ? aside[f] : feeds[f].tensor;
    const std::size_t index = memory.inputs_of[k][fed.inputs[f]];
    copy_feed(index, from);
    mark_filled(index);
  }
}

}  // namespace metronome
