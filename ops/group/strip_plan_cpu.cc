// strip_plan_cpu.h draws a plan. Three stages make it:
//
//   find_memory   all that lies in memory: operands, outputs, slices, and a concat's ranges, each
//                 with its strides over the domain; `coalesce` joins loops for all of them at once
//   make          a row function for each member; a load before the first that reads scattered
//                 rows; a store for a result that cannot be written at once where it belongs
//   release       a strip is spare again after the last member that reads it
//
// A result that lies over an operand is kept in a strip until all members have read the operand,
// and stored last.
#include "ops/group/strip_plan_cpu.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "ops/cpu/runs.h"
#include "ops/elementwise/elementwise_cpu.h"
#include "ops/expr/nest.h"
#include "ops/rules/by_element.h"

namespace metronome::METRONOME_ISA {
namespace {

/// Runs of so many elements and more are computed one by one, where they lie; of shorter ones,
/// which cost a call each, those that do not lie side by side are copied to a strip first.
constexpr std::int64_t kRunAlone = 128;
/// Bytes behind each strip, which gathered runs may write over. They also keep strips from lying in
/// the same sets of a cache.
constexpr std::size_t kSlack = kGatherSlack;

using Member = StripProgram::Member;

StripStep row_of(const Member& member) {
  StripStep step{.operands = member.inputs.size()};
  if (member.kind == Member::Kind::map) {
    step.row = row_function(member.function, member.reads);
    step.numbers = {member.a, member.b};
  } else if (member.kind == Member::Kind::accumulate) {
    step.row = add_row(member.type.element);
  } else {
    step.row = copy_row(size_of(member.type.element));
  }
  return step;
}

/// An operand or result in memory, and how its place moves with the loops of the domain.
struct MemoryOperand {
  char* base = nullptr;    ///< null while strips are counted
  Shape strides;           ///< of the domain's dimensions, in elements
  std::int64_t bytes = 0;  ///< of an element
};

class StripPlanner {
 public:
  StripPlanner(const StripProgram& group, const CpuLaunch* launch)
      : group_(group), launch_(launch) {}

  StripPlan run() && {
    find_memory();
    Nest nest{group_.domain, {dense_strides(group_.domain)}};
    for (const MemoryOperand& memory : memory_) nest.strides.push_back(memory.strides);
    nest = coalesce(nest);
    if (nest.rank() == 0) {  // one element
      nest.sizes = {1};
      for (Shape& strides : nest.strides) strides = {1};
    }
    plan_.run = nest.sizes.back();
    plan_.runs = plan_.run >= kRunAlone ? 1 : kStrip / plan_.run;
    plan_.sizes = {nest.sizes.begin(), nest.sizes.end() - 1};
    dense_ = nest.strides[0];
    plan_.strides = {nest.strides.begin() + 1, nest.strides.end()};
    make();
    plan_.strip_bytes = static_cast<std::size_t>(kStrip * element_bytes_) + kSlack;
    return std::move(plan_);
  }

 private:
  // ---- what lies in memory ---------------------------------------------------------------------

  void find_memory() {
    const std::size_t members = group_.members.size();
    slices_.resize(members, -1), ranges_.resize(members);
    for (std::size_t k = 0; k < group_.inputs.size(); ++k) {
      const Type& type = group_.inputs[k];
      // An operand of slices alone need not broadcast; its own walk is then never asked for.
      const bool walks = type.shape.size() <= group_.domain.size();
      add(operand_data(k),
          walks && reads_itself(static_cast<int>(k)) ? broadcast_strides(type.shape, group_.domain)
                                                     : Shape(group_.domain.size(), 0),
          type.element, 0);
    }
    for (std::size_t k = 0; k < group_.outputs.size(); ++k) {
      const Group::Source& source = group_.outputs[k];
      const bool concat = group_.members[source.member].kind == Member::Kind::concat;
      add(result_data(k), concat ? Shape(group_.domain.size(), 0) : dense_strides(group_.domain),
          group_.type(source).element, 0);
    }
    for (std::size_t m = 0; m < members; ++m) {
      const Member& member = group_.members[m];
      if (member.kind == Member::Kind::slice) {
        slices_[m] = add_slice(member);
      } else if (member.kind == Member::Kind::concat) {
        add_ranges(m);
      }
    }
  }

  bool reads_itself(int operand) const {
    return std::ranges::any_of(group_.members, [&](const Member& member) {
      return member.kind != Member::Kind::slice &&
             std::ranges::find(member.inputs, Group::Source{-1, operand}) != member.inputs.end();
    });
  }

  /// Null while strips are counted.
  void* operand_data(std::size_t k) const {
    return launch_ == nullptr ? nullptr : launch_->input_data[k];
  }
  void* result_data(std::size_t k) const {
    return launch_ == nullptr ? nullptr : launch_->output_data[k];
  }

  int add(void* base, Shape strides, Element element, std::int64_t offset) {
    const auto bytes = static_cast<std::int64_t>(size_of(element));
    auto* at = static_cast<char*>(base);
    memory_.push_back({at == nullptr ? nullptr : at + offset * bytes, std::move(strides), bytes});
    return static_cast<int>(memory_.size()) - 1;
  }

  int add_slice(const Member& member) {
    const auto operand = static_cast<std::size_t>(member.inputs[0].index);
    const Type& whole = group_.inputs[operand];
    const Shape moves = dense_strides(whole.shape);
    const Shape& part = member.type.shape;
    Shape strides(group_.domain.size(), 0);
    const std::size_t added = group_.domain.size() - part.size();
    for (std::size_t d = 0; d < part.size(); ++d) {
      strides[added + d] = part[d] == 1 ? 0 : moves[d];
    }
    return add(operand_data(operand), std::move(strides), whole.element,
               member.begin * moves[static_cast<std::size_t>(member.axis)]);
  }

  void add_ranges(std::size_t m) {
    const Member& member = group_.members[m];
    const auto output = std::ranges::find(group_.outputs, Group::Source{static_cast<int>(m), 0});
    if (output == group_.outputs.end()) return;  // nobody reads it
    const auto k = static_cast<std::size_t>(output - group_.outputs.begin());
    const Shape moves = dense_strides(member.type.shape);
    const auto axis = static_cast<std::size_t>(member.axis);
    for (std::size_t i = 0; i < member.inputs.size(); ++i) {
      ranges_[m].push_back(add(result_data(k), moves, member.type.element,
                               static_cast<std::int64_t>(i) * group_.domain[axis] * moves[axis]));
    }
  }

  // ---- steps ---------------------------------------------------------------------------------

  void make() {
    find_last_reads();
    places_.resize(group_.members.size());
    for (std::size_t m = 0; m < group_.members.size(); ++m) {
      const Member& member = group_.members[m];
      if (member.kind == Member::Kind::fill) {
        places_[m] = constant(member);
      } else if (slices_[m] >= 0) {
        continue;  // found by its readers
      } else if (member.kind == Member::Kind::concat) {
        for (std::size_t i = 0; i < ranges_[m].size(); ++i) {
          store(place_of(member.inputs[i], m), ranges_[m][i]);
        }
      } else {
        add_row(m);
      }
      release(m);
    }
    // These results lie over an operand that is read after they are made: they are stored last.
    for (const auto& [from, memory] : late_) store(from, memory);
  }

  void find_last_reads() {
    last_read_.resize(group_.members.size());
    last_read_of_memory_.resize(memory_.size(), -1);
    for (std::size_t m = 0; m < group_.members.size(); ++m) {
      last_read_[m] = static_cast<int>(m);
      for (const Group::Source& source : group_.members[m].inputs) {
        if (source.member >= 0) last_read_[source.member] = static_cast<int>(m);
        const int memory = memory_of(source);
        if (memory >= 0) last_read_of_memory_[memory] = static_cast<int>(m);
      }
    }
  }

  /// Returns the index of a source in `memory_`; -1 if a member makes it.
  int memory_of(const Group::Source& source) const {
    return source.member < 0 ? source.index : slices_[source.member];
  }

  void add_row(std::size_t m) {
    const Member& member = group_.members[m];
    StripStep step = row_of(member);
    for (std::size_t i = 0; i < member.inputs.size(); ++i) {
      step.from[i] = place_of(member.inputs[i], m);
    }
    const auto output = std::ranges::find(group_.outputs, Group::Source{static_cast<int>(m), 0});
    const auto bytes = static_cast<std::int64_t>(size_of(member.type.element));
    if (output == group_.outputs.end()) {
      step.to = strip(bytes);
    } else {
      const auto k = static_cast<int>(output - group_.outputs.begin());
      const int memory = static_cast<int>(group_.inputs.size()) + k;
      const RowData there{RowData::Kind::dense, memory, memory_[memory].base, 1, bytes, {}};
      if (read_later(memory, static_cast<int>(m))) {
        step.to = strip(bytes);
        late_.emplace_back(step.to, memory);
      } else {
        step.to = there;
      }
    }
    places_[m] = step.to;
    plan_.steps.push_back(step);
  }

  /// Whether an operand that lies where an output does is read by a member after this one.
  bool read_later(int output, int m) const {
    if (launch_ == nullptr) return true;
    for (std::size_t k = 0; k < group_.inputs.size(); ++k) {
      if (memory_[k].base == memory_[output].base && last_read_of_memory_[k] > m) return true;
    }
    return false;
  }

  RowData place_of(const Group::Source& source, std::size_t reader) {
    const int memory = memory_of(source);
    if (memory < 0) return places_[source.member];
    for (const auto& [loaded, place] : loaded_) {
      if (loaded == memory) return place;
    }
    const MemoryOperand& in = memory_[memory];
    RowData place{RowData::Kind::spread, memory, in.base, 1, in.bytes, {}};
    const Shape& strides = plan_.strides[memory];
    const auto still = [](std::int64_t stride) { return stride == 0; };
    if (strides == dense_) {
      place.kind = RowData::Kind::dense;
      return place;
    }
    const bool one_run = plan_.runs == 1;
    if (std::ranges::all_of(strides, still) || (one_run && strides.back() == 0)) {
      place.step = 0;
      return place;
    }
    if (one_run && strides.back() == 1) return place;
    const RowData to = strip(in.bytes);
    plan_.steps.push_back(
        {.kind = StripStep::Kind::load, .operands = 1, .from = {place}, .to = to});
    if (last_read_of_memory_[memory] > static_cast<int>(reader)) {
      loaded_.emplace_back(memory, to);
    } else {
      spare_after_.push_back(to.index);
    }
    return to;
  }

  void store(const RowData& from, int memory) {
    const MemoryOperand& there = memory_[memory];
    const RowData to{RowData::Kind::spread, memory, there.base, 1, there.bytes, {}};
    plan_.steps.push_back(
        {.kind = StripStep::Kind::store, .operands = 1, .from = {from}, .to = to});
  }

  RowData constant(const Member& fill) {
    const Element element = fill.type.element;
    RowData place{.kind = RowData::Kind::constant,
                  .step = 0,
                  .bytes = static_cast<std::int64_t>(size_of(element))};
    with_element(element, [&](auto zero) {
      const auto number = static_cast<decltype(zero)>(fill.a);
      std::memcpy(place.number.data(), &number, sizeof(number));
    });
    return place;
  }

  // ---- strips --------------------------------------------------------------------------------

  RowData strip(std::int64_t bytes) {
    if (spare_.empty()) spare_.push_back(plan_.strips++);
    const int index = spare_.back();
    spare_.pop_back();
    element_bytes_ = std::max(element_bytes_, bytes);
    return {.kind = RowData::Kind::strip, .index = index, .bytes = bytes};
  }

  /// Strips that member m read last may be written again.
  void release(std::size_t m) {
    spare_.insert(spare_.end(), spare_after_.begin(), spare_after_.end());
    spare_after_.clear();
    std::erase_if(loaded_, [&](const auto& loaded) {
      if (last_read_of_memory_[loaded.first] > static_cast<int>(m)) return false;
      spare_.push_back(loaded.second.index);
      return true;
    });
    for (std::size_t made = 0; made <= m; ++made) {
      const RowData& place = places_[made];
      const bool over = last_read_[made] == static_cast<int>(m) && slices_[made] < 0;
      if (!over || place.kind != RowData::Kind::strip || place.bytes == 0) continue;
      const bool kept = std::ranges::any_of(
          late_, [&](const auto& late) { return late.first.index == place.index; });
      if (!kept) spare_.push_back(place.index);
    }
  }

  const StripProgram& group_;
  const CpuLaunch* launch_;
  std::vector<MemoryOperand> memory_;     // operands, outputs, slices, ranges of concats
  std::vector<int> slices_;               // [member] in `memory_`, or -1
  std::vector<std::vector<int>> ranges_;  // [member][operand] of a concat, in `memory_`
  Shape dense_;                           // [loop] the domain's strides
  std::int64_t element_bytes_ = 0;        // of the largest in a strip
  std::vector<RowData> places_;           // [member]
  std::vector<int> last_read_, last_read_of_memory_;
  std::vector<std::pair<int, RowData>> loaded_;  // what lies in a strip too, for later readers
  std::vector<std::pair<RowData, int>> late_;    // stored in the end: strip, where to
  std::vector<int> spare_, spare_after_;         // strips, now and behind the member
  StripPlan plan_;
};

}  // namespace

StripPlan plan_strips(const StripProgram& group, const CpuLaunch* launch) {
  return StripPlanner(group, launch).run();
}

}  // namespace metronome::METRONOME_ISA
