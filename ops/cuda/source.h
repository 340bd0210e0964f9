// Writing the sources of groups: what a kernel computes at one element, as C++ text. The text
// depends on a group's ops and types alone, never on addresses, so that it can be kept by content.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "graph/compounds/group.h"
#include "graph/ir/type.h"

namespace metronome {

/// "float", "double", "int", "long long", "bool", "BFloat16" or "Float16".
std::string type_text(Element element);

/// A number as an expression of an element's type, exactly; floating ones in hexadecimal, integers
/// beyond the type's range as its end.
std::string number_text(double number, Element element);

/// Members of a group that are computed at one element, and what they need.
struct GroupPart {
  std::vector<int> operands;  ///< of the group, that it reads, in order
  std::vector<int> elements;  ///< of these, those read at the element, in order: others are sliced
  std::vector<int> members;   ///< computed, in order
  std::vector<int> outputs;   ///< of the group, stored, in order

  bool empty() const { return members.empty() && outputs.empty(); }
};

/// Returns the operands and members that computing `values` and storing `outputs` needs. The
/// reduction's results count as known: the part does not add what the reduction reads.
GroupPart part_of(const Group& group, std::span<const Group::Source> values,
                  std::vector<int> outputs);

/// How a kernel names things: operand k of the group is `in<k>`, its element `a<k>`; output k is
/// `out<k>`; result 0 of member m is `v<m>`, its key `key<m>`; the element's place is `i`, an
/// Index.
std::string value_text(const Group::Source& source);

/// Neighbouring elements that a kernel computes at once: 16 bytes of the widest type that it loads
/// or stores, where every operand runs on or stands still over as many; else 1.
int pack_of(const Group& group, const GroupPart& part);
/// True where an operand of the group runs on over a pack, so that its address must be a multiple
/// of the pack's bytes.
bool runs_on(const Group& group, const GroupPart& part, int operand);

/// Declarations of the members of a kernel or functor: addresses of operands and outputs, keys of
/// random members, then a watch where it stores floating numbers.
std::string members_text(const Group& group, const GroupPart& part);
bool watches(const Group& group, const GroupPart& part);

/// Statements that load operands at `i`, compute members and, where `stores`, store outputs.
std::string element_text(const Group& group, const GroupPart& part, bool stores);

/// The lines of a text, each after so many spaces.
std::string indent(const std::string& lines, std::size_t spaces);

/// The member of a kernel that says for how many threads a block it is compiled.
std::string bound_text(int threads);

/// A kernel that is all maps, over packs of `pack` elements, for blocks of `threads`.
std::string map_kernel_text(const Group& group, const GroupPart& part, int pack, int threads);

}  // namespace metronome
