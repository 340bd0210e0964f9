#include "graph/check/check_writes.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

namespace metronome::check {
namespace {

struct Owner {
  std::size_t end = 0;  // one past its last byte
  ValueId value;
  int last = 0;  // step that reads it
};
/// A piece of memory.
using Piece = std::pair<plan::Place::Kind, std::int32_t>;

/// Those whose bytes overlap exclude each other.
class Owners {
 public:
  void add(std::size_t begin, Owner owner) {
    by_digits_[std::bit_width(owner.end - begin)].emplace(begin, owner);
  }
  /// Calls keep(first byte, owner) for each owner that may hold bytes of [begin, end), and
  /// removes those for which it returns false.
  template <class Keep>
  void filter(std::size_t begin, std::size_t end, const Keep& keep) {
    for (auto& [digits, owners] : by_digits_) {
      const std::size_t longest = (std::size_t{1} << digits) - 1;
      auto it = owners.lower_bound(begin > longest ? begin - longest : 0);
      while (it != owners.end() && it->first < end) {
        it = keep(it->first, it->second) ? std::next(it) : owners.erase(it);
      }
    }
  }

 private:
  // By the binary digits of their length, then by first byte: ranges of similar length that hold
  // one byte begin near each other, so a look-up visits few.
  std::map<int, std::multimap<std::size_t, Owner>> by_digits_;
};

class WriteCheck {
 public:
  explicit WriteCheck(CheckedPlan& checked) : c_(checked) {}

  Mistake check() {
    for (const auto& [storage, value] : c_.lives.old_values()) {
      const std::size_t bytes = c_.graph.type(value).bytes();
      if (bytes > 0)
        owners_[{plan::Place::Kind::storage, storage.index}].add(
            0, Owner{bytes, value, c_.lives[value].last});
    }
    for (int step = 0; step < c_.steps(); ++step) {
      const std::int32_t index = c_.schedule.order[step];
      if (auto fault = check_scratch(index, step)) return fault;
      for (std::int32_t output = 0; output < c_.outputs(index); ++output) {
        if (auto fault = check_write({index, output}, step)) return fault;
      }
    }
    return std::nullopt;
  }

 private:
  // Scratch touches neither what lives on, nor what the node reads, nor what it writes.
  Mistake check_scratch(std::int32_t index, int step) {
    if (c_.scratch.empty() || c_.scratch[index] == 0) return std::nullopt;
    const std::size_t begin = c_.plan.scratch_offsets[index];
    const std::size_t end = begin + c_.scratch[index];
    std::vector<std::pair<std::size_t, Owner>> owners;
    owners_[{plan::Place::Kind::arena, -1}].filter(begin, end,
                                                   [&](std::size_t first, const Owner& owner) {
                                                     owners.emplace_back(first, owner);
                                                     return owner.last >= step;
                                                   });
    for (std::int32_t output = 0; output < c_.outputs(index); ++output) {
      const ValueId id{index, output};
      const plan::Place& place = c_.place_of(id);
      const std::size_t bytes = c_.graph.type(id).bytes();
      if (place.in != plan::Place::Kind::arena || !c_.lives[id].written || bytes == 0) continue;
      owners.push_back({place.offset, {place.offset + bytes, id, c_.insides.life_of(id).last}});
    }
    for (const auto& [first, owner] : owners) {
      if (first >= end || owner.end <= begin || owner.last < step ||
          c_.exclude(index, owner.value.node)) {
        continue;
      }
      return fmt::format("{} (step {}) and {} both hold arena bytes [{}, {})",
                         c_.scratch_name(index), step, c_.lives.life(owner.value),
                         std::max(first, begin), std::min(owner.end, end));
    }
    return std::nullopt;
  }

  Mistake check_write(ValueId id, int step) {
    const plan::Place& place = c_.place_of(id);
    const std::size_t begin = place.offset;
    const std::size_t end = begin + c_.graph.type(id).bytes();
    if (!c_.lives[id].written || place.in == plan::Place::Kind::none || begin == end)
      return std::nullopt;
    Owners& owners = owners_[{place.in, place.index}];
    Mistake fault;
    owners.filter(begin, end, [&](std::size_t first, const Owner& owner) {
      const bool dead = owner.last < step;
      const bool apart = owner.end <= begin || (!dead && c_.exclude(id.node, owner.value.node));
      if (!dead && !apart && !fault && !c_.insides.contains(owner.value, id)) {
        fault = check_overwrite(id, owner.value, step, std::max(first, begin),
                                std::min(owner.end, end));
      }
      return !dead && apart;
    });
    if (fault) return fault;
    owners.add(begin, Owner{end, id, c_.insides.life_of(id).last});
    return std::nullopt;
  }

  // At `step` value `id` is written over bytes [first, last) of `old`.
  Mistake check_overwrite(ValueId id, ValueId old, int step, std::size_t first, std::size_t last) {
    const ValueLife& life = c_.insides.life_of(old);
    const bool read_now = life.last == step && c_.lives[old].made != step;
    const plan::Place& place = c_.place_of(old);
    if (!read_now && place.in == plan::Place::Kind::storage) {
      return fmt::format("{} is written over {} at step {}, but its old value is read at step {}",
                         c_.name(id), c_.memory_name(place), step, life.last);
    }
    if (!read_now) {
      return fmt::format("{} and {} both hold {} bytes [{}, {})", c_.lives.life(old),
                         c_.lives.life(id), c_.memory_name(place), first, last);
    }
    if (!may_overwrite(id, old)) {
      return fmt::format("{} is written over {} at step {}, which reads it and has no right to",
                         c_.name(id), c_.name(old), step);
    }
    c_.taken_over[old] = step;
    return std::nullopt;
  }

  // The node of `id` reads `old` only where its op lets it write `id` at the same place.
  bool may_overwrite(ValueId id, ValueId old) const {
    const Node& node = c_.graph.node(id);
    const std::vector<InPlace> rights = node.op->in_place();
    if (node.guard.present() && c_.lives[node.guard].root == old) return false;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (c_.lives[node.inputs[i]].root != old) continue;
      const bool right = std::any_of(rights.begin(), rights.end(), [&](const InPlace& r) {
        return r.output == id.output && r.input == static_cast<int>(i);
      });
      const bool same_bytes = c_.graph.type(node.inputs[i]).bytes() == c_.graph.type(id).bytes() &&
                              c_.place_of(node.inputs[i]) == c_.place_of(id);
      if (!right || !same_bytes) return false;
    }
    return true;
  }

  CheckedPlan& c_;
  std::map<Piece, Owners> owners_;
};

}  // namespace

Mistake check_writes(CheckedPlan& c) { return WriteCheck(c).check(); }

}  // namespace metronome::check
