// A group computes its domain element by element, so each value between its members must be one
// element for one element. `check_flow` asks this of every member. `Reads` decides whether an
// output may lie over an operand:
//
//   x -> gelu -> layer_norm -> add -> y     the reduction reads gelu(x) several times, and stores
//                                           its result last
//
// y may lie over x if layer_norm's own result may lie over its operand: all reads of x are then
// over. `feeds_` finds, for each member before the reduction, the operands of the reduction that it
// helps to make. A slice, or an operand that is broadcast, is read at other places than the
// element's own, and never written over.
#include "graph/compounds/group.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "graph/ir/error.h"
#include "graph/ir/structural.h"
#include "graph/rules/fusion.h"

namespace metronome {
namespace {

bool contains(const std::vector<int>& list, int number) {
  return std::find(list.begin(), list.end(), number) != list.end();
}

using Kind = Fusion::Kind;

std::vector<Fusion> fusions_of(const Group& group) {
  std::vector<Fusion> fusions;
  for (const Group::Member& member : group.members) fusions.push_back(group.fusion_of(member));
  return fusions;
}

/// Whether what a member gives there is computed element by element of the domain.
bool gives_elements(const Fusion& fusion, int output) {
  return fusion.kind == Kind::map || fusion.kind == Kind::slice ||
         contains(fusion.streamed_outputs, output);
}

/// Whether a member reads an operand element by element of the domain.
bool takes_elements(const Fusion& fusion, int input) {
  return fusion.kind == Kind::map || fusion.kind == Kind::concat ||
         contains(fusion.streamed_inputs, input);
}

bool broadcasts(const Shape& shape, const Shape& domain) {
  try {
    return broadcast(shape, domain) == domain;
  } catch (const Requirement&) {
    return false;
  }
}

/// Checks the flow of values between members: a map gives the domain's shape, a slice of an operand
/// one that broadcasts to it, a reduction and a concat walk over it, and the results that these
/// make of the whole domain are read outside only.
void check_flow(const Group& group) {
  const std::vector<Fusion> fusions = fusions_of(group);
  if (std::ranges::count(fusions, Kind::reduction, &Fusion::kind) > 1) {
    throw Requirement{"at most one reduction"};
  }
  for (std::size_t m = 0; m < group.members.size(); ++m) {
    const Group::Member& member = group.members[m];
    const Kind kind = fusions[m].kind;
    const bool fits = member.types.size() == 1 &&
                      (kind == Kind::slice ? broadcasts(member.types[0].shape, group.domain)
                                           : member.types[0].shape == group.domain);
    if ((kind == Kind::map || kind == Kind::slice) && !fits) {
      throw Requirement{
          fmt::format("one result of {} from {}", to_string(group.domain), member.op->name())};
    }
    for (std::size_t i = 0; i < member.inputs.size(); ++i) {
      const Group::Source& source = member.inputs[i];
      const bool takes = takes_elements(fusions[m], static_cast<int>(i));
      const bool made = source.member >= 0;
      const bool walked_over = takes && (kind == Kind::reduction || kind == Kind::concat);
      if ((made && !(takes && gives_elements(fusions[source.member], source.index))) ||
          (walked_over && group.type(source).shape != group.domain)) {
        throw Requirement{fmt::format("operand {} of {} element by element of {}", i,
                                      member.op->name(), to_string(group.domain))};
      }
    }
  }
}

/// Every place where an operand of a group is read, and whether that may go on while a result of
/// the reduction is written at the same element.
class Reads {
 public:
  explicit Reads(const Group& group)
      : group_(group), fusions_(fusions_of(group)), reduction_(group.reduction()) {
    if (reduction_ < 0) return;
    const Group::Member& reducer = group.members[reduction_];
    feeds_.resize(group.members.size());
    for (const int t : fusions_[reduction_].streamed_inputs) feed(reducer.inputs[t], t);
    for (int m = reduction_ - 1; m >= 0; --m) {
      for (const int t : feeds_[m]) {
        for (const Group::Source& source : group.members[m].inputs) feed(source, t);
      }
    }
  }

  /// True where every read of the operand is of the element's own place and over before output
  /// `streamed` of the reduction is stored there; without a reduction, before anything is.
  bool over_before(int operand, int streamed) const {
    for (std::size_t m = 0; m < group_.members.size(); ++m) {
      const Group::Member& member = group_.members[m];
      for (std::size_t i = 0; i < member.inputs.size(); ++i) {
        if (member.inputs[i] != Group::Source{-1, operand}) continue;
        if (fusions_[m].kind == Kind::slice || group_.inputs[operand].shape != group_.domain) {
          return false;
        }
        if (static_cast<int>(m) == reduction_) {
          if (!may_overwrite(streamed, static_cast<int>(i))) return false;
        } else if (reduction_ >= 0) {
          for (const int t : feeds_[m]) {
            if (!may_overwrite(streamed, t)) return false;
          }
        }
      }
    }
    return true;
  }

 private:
  void feed(const Group::Source& source, int streamed) {
    if (source.member >= 0 && !contains(feeds_[source.member], streamed)) {
      feeds_[source.member].push_back(streamed);
    }
  }
  bool may_overwrite(int output, int input) const {
    for (const InPlace& right : group_.members[reduction_].op->in_place()) {
      if (right.output == output && right.input == input) {
        return contains(fusions_[reduction_].streamed_inputs, input);
      }
    }
    return false;
  }

  const Group& group_;
  std::vector<Fusion> fusions_;
  int reduction_;
  std::vector<std::vector<int>> feeds_;  // [member] operands of the reduction that it helps to make
};

std::string list_members(const std::vector<Group::Member>& members, bool attributes) {
  std::string text;
  for (const Group::Member& member : members) {
    if (member.op->as<Fill>() != nullptr) continue;
    if (!text.empty()) text += ' ';
    text += member.op->name();
    const std::string more = attributes ? member.op->attributes() : "";
    if (!more.empty()) text += fmt::format("({})", more);
  }
  return text;
}

}  // namespace

bool Group::Member::operator==(const Member& other) const {
  return op->equals(*other.op) && inputs == other.inputs && types == other.types;
}

const Type& Group::type(const Source& source) const {
  return source.member < 0 ? inputs[source.index] : members[source.member].types[source.index];
}

Types Group::types_read_by(const Member& member) const {
  Types types;
  for (const Source& source : member.inputs) types.push_back(type(source));
  return types;
}

/// A constant is a map without operands.
Fusion Group::fusion_of(const Member& member) const {
  auto fusion = member.op->ask<FusionRule>(types_read_by(member));
  if (fusion) return *std::move(fusion);
  if (member.op->as<Fill>() != nullptr) return {};
  throw Requirement{fmt::format("ops that fuse, but {}", member.op->name())};
}

int Group::reduction() const {
  for (std::size_t m = 0; m < members.size(); ++m) {
    if (fusion_of(members[m]).kind == Kind::reduction) return static_cast<int>(m);
  }
  return -1;
}

std::vector<bool> Group::after_reduction() const {
  const int reducer = reduction();
  std::vector<bool> after(members.size());
  for (std::size_t m = 0; m < members.size(); ++m) {
    for (const Source& source : members[m].inputs) {
      if (source.member >= 0 && (source.member == reducer || after[source.member])) after[m] = true;
    }
  }
  return after;
}

std::string Group::names() const { return list_members(members, false); }
std::string Group::attributes() const { return list_members(members, true); }

Types Group::infer(std::span<const Type> in) const {
  if (!std::equal(in.begin(), in.end(), inputs.begin(), inputs.end())) {
    throw Requirement{"the operands that it was made for"};
  }
  const auto require_made = [&](const Source& source, std::size_t before) {
    const bool made = source.member < 0 ? static_cast<std::size_t>(source.index) < inputs.size()
                                        : static_cast<std::size_t>(source.member) < before &&
                                              static_cast<std::size_t>(source.index) <
                                                  members[source.member].types.size();
    if (!made) throw Requirement{"members that read operands or earlier members"};
  };
  for (std::size_t m = 0; m < members.size(); ++m) {
    for (const Source& source : members[m].inputs) require_made(source, m);
    if (members[m].op->infer(types_read_by(members[m])) != members[m].types) {
      throw Requirement{fmt::format("the types of {}'s rule", members[m].op->name())};
    }
  }
  check_flow(*this);
  Types types;
  for (const Source& source : outputs) {
    require_made(source, members.size());
    if (source.member < 0 || fusion_of(members[source.member]).kind == Kind::slice) {
      throw Requirement{"results of members"};
    }
    types.push_back(type(source));
  }
  return types;
}

double Group::flops(std::span<const Type>, std::span<const Type>) const {
  double all = 0;
  for (const Member& member : members) all += member.op->flops(types_read_by(member), member.types);
  return all;
}

std::vector<InPlace> Group::in_place() const {
  const int reducer = reduction();
  const std::vector<bool> after = after_reduction();
  const Reads reads(*this);
  std::vector<int> streamed;
  if (reducer >= 0) {
    const Member& member = members[reducer];
    streamed = fusion_of(member).streamed_outputs;
  }
  std::vector<InPlace> rights;
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    const Source& source = outputs[k];
    if (type(source).shape != domain) continue;
    int stored = -1;  // the result of the reduction that is stored when this output is
    if (reducer >= 0) {
      if (streamed.size() != 1) continue;
      stored = streamed[0];
      if (!after[source.member] && source != Source{reducer, stored}) continue;
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const int operand = static_cast<int>(i);
      if (inputs[i] == type(source) && reads.over_before(operand, stored)) {
        rights.push_back({static_cast<int>(k), operand});
      }
    }
  }
  return rights;
}

}  // namespace metronome
