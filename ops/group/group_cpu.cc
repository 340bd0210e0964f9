// A group of maps as one walk over its domain, in strips that stay in the first-level cache. Each
// member is the row function that it has alone, so its bits are those it has alone:
//
//   c = add(mul(f, before), mul(i, g))     f, i, g: columns of x [32, 128]; before, c [32, 32]
//
//   for each strip, all 32 rows of 32 elements:
//     strip 0 <- f                      rows that do not lie side by side are copied
//     strip 1 <- mul(strip 0, before)   before is read where it lies
//     strip 0 <- i ...                  a strip serves again when nothing reads it any more
//     c       <- add(strip 1, strip 2)  written where it belongs
//
// The loops are those of the domain, joined where all that lies in memory allows it (`Nest`). A
// long innermost loop is cut into strips; of a short one a strip takes several runs.
//
// Members are interpreted. Generating kernels when Metronome is built would serve the chains known
// then, not those of users; a row function runs at the speed of memory that is in a cache from some
// hundred elements on, so little is left to gain.
#include "ops/group/group.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "graph/ir/error.h"
#include "graph/ir/structural.h"
#include "ops/concat/concat.h"
#include "ops/cpu/launch.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/rows.h"
#include "ops/elementwise/elementwise_cpu.h"
#include "ops/expand/expand.h"
#include "ops/expr/nest.h"
#include "ops/rules/by_element.h"
#include "ops/slice/slice.h"

namespace metronome::METRONOME_ISA {
namespace {

/// Elements of a strip: 4 KiB of f32. A chain of 16 ops over [128, 1024] took 0.25 ms in strips of
/// 512, whose calls cost as much as their work, 0.16 in these and 0.25 in strips of 2048, which
/// leave the first-level cache (AMD EPYC, AVX-512, 2 threads).
constexpr std::int64_t kStrip = 1024;
/// Runs of so many elements and more are computed one by one, where they lie; of shorter ones,
/// which cost a call each, those that do not lie side by side are copied to a strip first.
constexpr std::int64_t kRunAlone = 128;
/// From a strip to the next: beside its elements a line, so that not all lie in the same sets of a
/// cache.
constexpr std::size_t kStripBytes = kStrip * sizeof(double) + 64;
/// A map's operands at most: `where` has three.
constexpr std::size_t kMostOperands = 3;

/// What a member computes.
struct MemberRow {
  RowFunction row = nullptr;
  Numbers numbers = {};
};

MemberRow row_of(const Group& group, const Group::Member& member) {
  const Element element = member.types[0].element;
  if (const auto* op = member.op->as<Elementwise>()) {
    const Types types = group.types_read_by(member);
    return {row_function(op->function, types.back().element), {op->a, op->b}};
  }
  if (member.op->as<Accumulate>() != nullptr) return {add_row(element)};
  if (member.op->as<Expand>() != nullptr) return {copy_row(size_of(element))};
  throw InternalError("a group on a CPU with a member that it has no row function for");
}

/// Where a step finds the elements of a strip.
struct RowData {
  enum class Kind : std::uint8_t {
    strip,   ///< in strip `index`
    dense,   ///< in memory, as the domain lies
    spread,  ///< in memory, moved by `Walk::strides`; `index` is the walk's
  };
  Kind kind = Kind::strip;
  int index = 0;
  char* base = nullptr;    ///< of memory
  std::int64_t step = 1;   ///< elements from one to the next: 0 or 1
  std::int64_t bytes = 0;  ///< of an element
};

/// One row function over a strip, or a copy of rows to a strip or from one.
struct Step {
  enum class Kind : std::uint8_t { row, load, store };
  Kind kind = Kind::row;
  MemberRow member = {};
  std::size_t operands = 0;
  std::array<RowData, kMostOperands> from = {};
  RowData to = {};
};

/// What of a group lies in memory, and how it moves with the loops of the domain.
struct InMemory {
  char* base = nullptr;    ///< null while strips are counted
  Shape strides;           ///< of the domain's dimensions, in elements
  std::int64_t bytes = 0;  ///< of an element
};

/// A constant's bytes, and those of all, which do not move.
using Number = std::array<char, sizeof(double)>;
using Constants = std::vector<Number>;

/// The steps of a group over memory. Without memory all that it writes is taken to lie over what it
/// reads: then it counts the strips that any memory needs.
class Steps {
 public:
  Steps(const Group& group, const CpuLaunch* launch) : group_(group), launch_(launch) {
    find_memory();
    Nest nest{group.domain, {dense_strides(group.domain)}};
    for (const InMemory& memory : memory_) nest.strides.push_back(memory.strides);
    nest = coalesced(nest);
    if (nest.rank() == 0) {  // one element
      nest.sizes = {1};
      for (Shape& strides : nest.strides) strides = {1};
    }
    run_ = nest.sizes.back();
    runs_ = run_ >= kRunAlone ? 1 : kStrip / run_;
    sizes_ = {nest.sizes.begin(), nest.sizes.end() - 1};
    dense_ = nest.strides[0];
    strides_ = {nest.strides.begin() + 1, nest.strides.end()};
    make();
  }

  /// Of the strips of a thread.
  std::size_t bytes() const { return static_cast<std::size_t>(strips_) * kStripBytes; }
  std::int64_t run() const { return run_; }      ///< elements of the innermost loop
  std::int64_t runs() const { return runs_; }    ///< of a strip
  const Shape& sizes() const { return sizes_; }  ///< of the loops around it
  /// [what lies in memory][loop]
  const std::vector<Shape>& strides() const { return strides_; }
  const std::vector<Step>& steps() const { return steps_; }

 private:
  // ---- what lies in memory ---------------------------------------------------------------------

  void find_memory() {
    const std::size_t members = group_.members.size();
    slices_.resize(members, -1), ranges_.resize(members);
    for (std::size_t k = 0; k < group_.inputs.size(); ++k) {
      const Type& type = group_.inputs[k];
      // An operand of slices alone need not broadcast; its own walk is then never asked for.
      const bool walks = type.shape.size() <= group_.domain.size();
      add(launch_ == nullptr ? nullptr : launch_->input_data[k],
          walks && reads_itself(static_cast<int>(k)) ? broadcast_strides(type.shape, group_.domain)
                                                     : Shape(group_.domain.size(), 0),
          type.element, 0);
    }
    for (std::size_t k = 0; k < group_.outputs.size(); ++k) {
      const Group::Source& source = group_.outputs[k];
      const bool concat = group_.members[source.member].op->as<Concat>() != nullptr;
      add(launch_ == nullptr ? nullptr : launch_->output_data[k],
          concat ? Shape(group_.domain.size(), 0) : dense_strides(group_.domain),
          group_.type(source).element, 0);
    }
    for (std::size_t m = 0; m < members; ++m) {
      const Group::Member& member = group_.members[m];
      const Fusion fusion = group_.fusion_of(member);
      if (fusion.kind == Fusion::Kind::slice) {
        slices_[m] = add_slice(member, fusion);
      } else if (fusion.kind == Fusion::Kind::concat) {
        add_ranges(m, fusion);
      }
    }
  }

  bool reads_itself(int operand) const {
    return std::ranges::any_of(group_.members, [&](const Group::Member& member) {
      return member.op->as<Slice>() == nullptr &&
             std::ranges::find(member.inputs, Group::Source{-1, operand}) != member.inputs.end();
    });
  }

  int add(const void* base, Shape strides, Element element, std::int64_t offset) {
    const auto bytes = static_cast<std::int64_t>(size_of(element));
    auto* at = static_cast<char*>(const_cast<void*>(base));
    memory_.push_back({at == nullptr ? nullptr : at + offset * bytes, std::move(strides), bytes});
    return static_cast<int>(memory_.size()) - 1;
  }

  int add_slice(const Group::Member& member, const Fusion& fusion) {
    const int operand = member.inputs[0].index;
    const Type& whole = group_.inputs[operand];
    const Shape moves = dense_strides(whole.shape);
    const Shape& part = member.types[0].shape;
    Shape strides(group_.domain.size(), 0);
    const std::size_t added = group_.domain.size() - part.size();
    for (std::size_t d = 0; d < part.size(); ++d) {
      strides[added + d] = part[d] == 1 ? 0 : moves[d];
    }
    return add(launch_ == nullptr ? nullptr : launch_->input_data[operand], std::move(strides),
               whole.element, fusion.begin * moves[static_cast<std::size_t>(fusion.axis)]);
  }

  void add_ranges(std::size_t m, const Fusion& fusion) {
    const Group::Member& member = group_.members[m];
    const auto output = std::ranges::find(group_.outputs, Group::Source{static_cast<int>(m), 0});
    if (output == group_.outputs.end()) return;  // nobody reads it
    const auto k = static_cast<std::size_t>(output - group_.outputs.begin());
    const Shape moves = dense_strides(member.types[0].shape);
    const auto axis = static_cast<std::size_t>(fusion.axis);
    for (std::size_t i = 0; i < member.inputs.size(); ++i) {
      ranges_[m].push_back(add(launch_ == nullptr ? nullptr : launch_->output_data[k], moves,
                               member.types[0].element,
                               static_cast<std::int64_t>(i) * group_.domain[axis] * moves[axis]));
    }
  }

  // ---- steps ---------------------------------------------------------------------------------

  void make() {
    find_last_reads();
    places_.resize(group_.members.size());
    constants_ = std::make_shared<Constants>();
    constants_->reserve(group_.members.size());
    for (std::size_t m = 0; m < group_.members.size(); ++m) {
      const Group::Member& member = group_.members[m];
      if (const auto* fill = member.op->as<Fill>()) {
        places_[m] = constant(*fill);
      } else if (slices_[m] >= 0) {
        continue;  // found by its readers
      } else if (member.op->as<Concat>() != nullptr) {
        for (std::size_t i = 0; i < ranges_[m].size(); ++i) {
          store(place_of(member.inputs[i], m), ranges_[m][i]);
        }
      } else {
        add_row(m);
      }
      release(m);
    }
    // What lies over an operand that is read later than it is made.
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

  /// What of memory a source is; -1 for what a member makes.
  int memory_of(const Group::Source& source) const {
    return source.member < 0 ? source.index : slices_[source.member];
  }

  void add_row(std::size_t m) {
    const Group::Member& member = group_.members[m];
    Step step{.member = row_of(group_, member), .operands = member.inputs.size()};
    for (std::size_t i = 0; i < member.inputs.size(); ++i) {
      step.from[i] = place_of(member.inputs[i], m);
    }
    const auto output = std::ranges::find(group_.outputs, Group::Source{static_cast<int>(m), 0});
    const auto bytes = static_cast<std::int64_t>(size_of(member.types[0].element));
    if (output == group_.outputs.end()) {
      step.to = strip(bytes);
    } else {
      const auto k = static_cast<int>(output - group_.outputs.begin());
      const int memory = static_cast<int>(group_.inputs.size()) + k;
      const RowData there{RowData::Kind::dense, memory, memory_[memory].base, 1, bytes};
      if (read_later(memory, static_cast<int>(m))) {
        step.to = strip(bytes);
        late_.emplace_back(step.to, memory);
      } else {
        step.to = there;
      }
    }
    places_[m] = step.to;
    steps_.push_back(step);
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
    const InMemory& in = memory_[memory];
    RowData place{RowData::Kind::spread, memory, in.base, 1, in.bytes};
    const Shape& strides = strides_[memory];
    const auto still = [](std::int64_t stride) { return stride == 0; };
    if (strides == dense_) {
      place.kind = RowData::Kind::dense;
      return place;
    }
    const bool one_run = runs_ == 1;
    if (std::ranges::all_of(strides, still) || (one_run && strides.back() == 0)) {
      place.step = 0;
      return place;
    }
    if (one_run && strides.back() == 1) return place;
    const RowData to = strip(in.bytes);
    steps_.push_back({.kind = Step::Kind::load, .operands = 1, .from = {place}, .to = to});
    if (last_read_of_memory_[memory] > static_cast<int>(reader)) {
      loaded_.emplace_back(memory, to);
    } else {
      spare_after_.push_back(to.index);
    }
    return to;
  }

  void store(const RowData& from, int memory) {
    const RowData to{RowData::Kind::spread, memory, memory_[memory].base, 1, memory_[memory].bytes};
    steps_.push_back({.kind = Step::Kind::store, .operands = 1, .from = {from}, .to = to});
  }

  RowData constant(const Fill& fill) {
    const Element element = fill.type.element;
    Number& bytes = constants_->emplace_back();
    with_element(element, [&](auto zero) {
      const auto number = static_cast<decltype(zero)>(fill.number);
      std::memcpy(bytes.data(), &number, sizeof(number));
    });
    return {RowData::Kind::spread, -1, bytes.data(), 0,
            static_cast<std::int64_t>(size_of(element))};
  }

  // ---- strips --------------------------------------------------------------------------------

  RowData strip(std::int64_t bytes) {
    if (spare_.empty()) spare_.push_back(strips_++);
    const int index = spare_.back();
    spare_.pop_back();
    return {RowData::Kind::strip, index, nullptr, 1, bytes};
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
      const bool kept = std::ranges::any_of(late_, [&](const auto& late) {
        return place.kind == RowData::Kind::strip && late.first.index == place.index;
      });
      if (over && !kept && place.kind == RowData::Kind::strip && place.bytes > 0) {
        spare_.push_back(place.index);
      }
    }
  }

  const Group& group_;
  const CpuLaunch* launch_;
  std::vector<InMemory> memory_;          // operands, outputs, slices, ranges of concats
  std::vector<int> slices_;               // [member] in `memory_`, or -1
  std::vector<std::vector<int>> ranges_;  // [member][operand] of a concat, in `memory_`
  std::int64_t run_ = 0, runs_ = 0;
  Shape sizes_, dense_;
  std::vector<Shape> strides_;   // [in memory][loop]
  std::vector<RowData> places_;  // [member]
  std::vector<int> last_read_, last_read_of_memory_;
  std::vector<std::pair<int, RowData>> loaded_;  // what lies in a strip too, for later readers
  std::vector<std::pair<RowData, int>> late_;
  std::vector<int> spare_, spare_after_;
  int strips_ = 0;
  std::vector<Step> steps_;
  std::shared_ptr<Constants> constants_;
};

/// What a bound kernel owns.
struct Walk {
  explicit Walk(const Group& group, const CpuLaunch& launch)
      : plan(group, &launch),
        scratch(static_cast<char*>(launch.scratch)),
        threads(launch.choice.threads),
        all_runs(numel(group.domain) / plan.run()),
        strips_of_run((plan.run() + kStrip - 1) / kStrip),
        strips(plan.runs() == 1 ? all_runs * strips_of_run
                                : (all_runs + plan.runs() - 1) / plan.runs()) {}

  /// A strip of the domain: `runs` runs of `count` elements, the first of them from `begin` on.
  struct Part {
    std::int64_t run, runs, begin, count;
  };

  void operator()() const {
    parallel_for(threads, strips, kStripsOfPart,
                 [&](std::int64_t begin, std::int64_t end, int part) {
                   char* const own = scratch + static_cast<std::size_t>(part) * plan.bytes();
                   for (std::int64_t s = begin; s < end; ++s) compute(part_of(s), own);
                 });
  }

 private:
  /// Strips that are worth a thread's share.
  static constexpr std::int64_t kStripsOfPart = 1;

  Part part_of(std::int64_t strip) const {
    if (plan.runs() > 1) {
      const std::int64_t run = strip * plan.runs();
      return {run, std::min(plan.runs(), all_runs - run), 0, plan.run()};
    }
    const std::int64_t begin = strip % strips_of_run * kStrip;
    return {strip / strips_of_run, 1, begin, std::min(kStrip, plan.run() - begin)};
  }

  void compute(const Part& part, char* own) const {
    for (const Step& step : plan.steps()) {
      if (step.kind != Step::Kind::row) {
        copy(step, part, own);
        continue;
      }
      std::array<const void*, kMostOperands> from{};
      std::array<std::int64_t, kMostOperands> steps{};
      for (std::size_t i = 0; i < step.operands; ++i) {
        from[i] = address(step.from[i], part, own);
        steps[i] = step.from[i].step;
      }
      step.member.row(step.member.numbers, address(step.to, part, own), from.data(), steps.data(),
                      part.runs * part.count);
    }
  }

  char* address(const RowData& place, const Part& part, char* own) const {
    switch (place.kind) {
      case RowData::Kind::strip:
        return own + static_cast<std::size_t>(place.index) * kStripBytes;
      case RowData::Kind::dense:
        return place.base + (part.run * plan.run() + part.begin) * place.bytes;
      case RowData::Kind::spread:
        break;
    }
    return place.index < 0 ? place.base : place.base + offset(place, part.run, part) * place.bytes;
  }

  /// In elements, of the part's first element in a run.
  std::int64_t offset(const RowData& place, std::int64_t run, const Part& part) const {
    const Shape& strides = plan.strides()[static_cast<std::size_t>(place.index)];
    std::int64_t at = part.begin * strides.back();
    for (std::size_t d = plan.sizes().size(); d-- > 1;) {
      at += run % plan.sizes()[d] * strides[d];
      run /= plan.sizes()[d];
    }
    return plan.sizes().empty() ? at : at + run * strides[0];
  }

  /// Rows to a strip, or from a place that lies as a strip does.
  void copy(const Step& step, const Part& part, char* own) const {
    const bool loads = step.kind == Step::Kind::load;
    const RowData& spread = loads ? step.from[0] : step.to;
    char* strip = address(loads ? step.to : step.from[0], part, own);
    const std::int64_t still = loads ? 1 : step.from[0].step;
    const std::int64_t moves = plan.strides()[static_cast<std::size_t>(spread.index)].back();
    for (std::int64_t k = 0; k < part.runs; ++k) {
      char* const memory = spread.base + offset(spread, part.run + k, part) * spread.bytes;
      if (loads) {
        copy_elements(strip, 1, memory, moves, part.count, spread.bytes);
      } else {
        copy_elements(memory, moves, strip, still, part.count, spread.bytes);
      }
      strip += still * part.count * spread.bytes;
    }
  }

  static void copy_elements(char* to, std::int64_t to_step, const char* from,
                            std::int64_t from_step, std::int64_t count, std::int64_t bytes) {
    if (to_step == 1 && from_step == 1) {
      std::memcpy(to, from, static_cast<std::size_t>(count * bytes));
      return;
    }
    with_size(static_cast<std::size_t>(bytes), [&](auto unit) {
      using Unit = decltype(unit);
      auto* const out = reinterpret_cast<Unit*>(to);
      const auto* const in = reinterpret_cast<const Unit*>(from);
      for (std::int64_t i = 0; i < count; ++i) out[i * to_step] = in[i * from_step];
    });
  }

  Steps plan;
  char* scratch;
  int threads;
  std::int64_t all_runs, strips_of_run, strips;
};

/// Elements times members from which threads pay.
constexpr std::int64_t kParallelWork = kParallelFrom / 2;

}  // namespace

std::vector<Candidate> candidates(const Group& group, const CpuQuery& query) {
  const auto members = static_cast<std::int64_t>(group.members.size());
  const int threads = numel(group.domain) * members < kParallelWork ? 1 : query.threads;
  return {{.scratch_bytes = Steps(group, nullptr).bytes() * static_cast<std::size_t>(threads),
           .threads = threads}};
}

CpuKernel bind(const Group& group, const CpuLaunch& launch) {
  const auto walk = std::make_shared<const Walk>(group, launch);
  return CpuKernel([walk] { (*walk)(); });
}

}  // namespace metronome::METRONOME_ISA
