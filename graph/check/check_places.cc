#include "graph/check/check_places.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "graph/ir/structural.h"

namespace metronome::check {
namespace {

Mistake find_readables(CheckedPlan& c) {
  for (std::size_t i = 0; i < c.graph.readables().size(); ++i) {
    const Readable& readable = c.graph.readables()[i];
    std::size_t bytes = 0;
    if (readable.value.present()) {
      const ValueId root = c.lives[readable.value].root;
      if (!c.lives[root].written) {
        return fmt::format("readable \"{}\" is {} itself, not a copy", readable.name, c.name(root));
      }
      const plan::Place block{plan::Place::Kind::readable, static_cast<std::int32_t>(i), 0};
      if (c.fixed.try_emplace(root, block).second) bytes = c.graph.type(root).bytes();
    }
    if (bytes == c.plan.readable_bytes[i]) continue;
    return fmt::format("readable \"{}\" has {} bytes beside the arena, but needs {}", readable.name,
                       c.plan.readable_bytes[i], bytes);
  }
  return std::nullopt;
}

Mistake find_assigned(CheckedPlan& c) {
  for (std::size_t i = 0; i < c.graph.assignments().size(); ++i) {
    const auto& [storage, value, line] = c.graph.assignments()[i];
    const std::string& path = c.graph.storage(storage).path;
    const ValueId root = c.lives[value].root;
    if (!c.lives[root].written) {
      return fmt::format("storage \"{}\" is assigned {} itself, not a copy", path, c.name(root));
    }
    if (!c.schedule.in_place[i]) continue;
    if (root != value) {
      return fmt::format("storage \"{}\" is assigned in place, but {} is a view", path,
                         c.name(value));
    }
    const auto [found, is_new] =
        c.fixed.try_emplace(root, plan::Place{plan::Place::Kind::storage, storage.index, 0});
    if (is_new) continue;
    return fmt::format("storage \"{}\" is assigned in place, but {} must lie at {}", path,
                       c.name(value), c.name(found->second));
  }
  return std::nullopt;
}

std::optional<plan::Place> fixed_place(const CheckedPlan& c, ValueId id, const ValueLife& life) {
  if (c.graph.node(id).op->as<Input>() != nullptr)
    return plan::Place{plan::Place::Kind::input, id.node, 0};
  if (const Read* read = c.graph.node(id).op->as<Read>()) {
    return plan::Place{plan::Place::Kind::storage, read->storage.index, 0};
  }
  if (life.root != id) {
    plan::Place place = c.place_of(life.root);
    place.offset += life.offset;
    return place;
  }
  const auto found = c.fixed.find(id);
  return found == c.fixed.end() ? std::nullopt : std::optional(found->second);
}

Mistake check_in_arena(const CheckedPlan& c, const std::string& what, std::size_t offset,
                       std::size_t bytes) {
  if (offset % c.alignment != 0) {
    return fmt::format("{} lies at arena byte {}, which is no multiple of {}", what, offset,
                       c.alignment);
  }
  if (bytes > c.plan.arena_bytes || offset > c.plan.arena_bytes - bytes) {
    return fmt::format("{} lies at arena bytes [{}, {}), but the arena ends at {}", what, offset,
                       offset + bytes, c.plan.arena_bytes);
  }
  return std::nullopt;
}

}  // namespace

Mistake find_fixed(CheckedPlan& c) {
  if (Mistake fault = find_readables(c)) return fault;
  return find_assigned(c);
}

Mistake check_places(const CheckedPlan& c) {
  for (const auto& [id, life] : c.lives.all()) {
    const plan::Place& place = c.place_of(id);
    const std::optional<plan::Place> fixed = fixed_place(c, id, life);
    if (fixed && place != *fixed) {
      const bool view = life.root != id;
      return fmt::format("{} lies at {}, but must lie at {}{}", c.name(id), c.name(place),
                         c.name(*fixed), view ? ", as a view of " + c.name(life.root) : "");
    }
    const std::size_t bytes = c.graph.type(id).bytes();
    if (life.offset + bytes > c.graph.type(life.root).bytes()) {
      return fmt::format("{} reaches past the end of {}", c.name(id), c.name(life.root));
    }
    const bool unread = c.is_saved(id) && !life.read && place == plan::Place{};
    if (fixed || unread || c.insides.contains(id)) continue;
    if (place.in != plan::Place::Kind::arena || place.index != -1) {
      return fmt::format("{} lies at {}, but must lie in the arena", c.name(id), c.name(place));
    }
    if (auto fault = check_in_arena(c, c.name(id), place.offset, bytes)) return fault;
  }
  for (std::size_t i = 0; i < c.scratch.size(); ++i) {
    if (c.scratch[i] == 0) continue;
    const std::string what = c.scratch_name(static_cast<std::int32_t>(i));
    if (auto fault = check_in_arena(c, what, c.plan.scratch_offsets[i], c.scratch[i])) return fault;
  }
  return std::nullopt;
}

}  // namespace metronome::check
