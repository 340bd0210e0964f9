// Values that show the memory of others, and what a write through one does to the rest.
//
//   %row = aten.select(%x, 0, 1)        %row shows a part of %x
//   aten.fill_(%row, 3)                 %x is now %x with that part replaced; other views of %x are
//                                       made anew of it
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "executor/import/aten/call.h"
#include "executor/import/file/exported.h"

namespace metronome::pt2 {

/// A value that shows another's memory: output `output` of a node.
struct MemoryView {
  std::size_t node = 0, output = 0;
  std::string of;
  bool same = false;      ///< all of it as it is: the result of a write, or of a dropout of nothing
  bool may_copy = false;  ///< a view or a copy: it is not known
};

/// "aten.add_.Tensor" writes to its operand; "aten.t_" only views it in another way.
bool writes(std::string_view target);

/// The views of a program, and how late each value is read.
class Views {
 public:
  explicit Views(const ExportedProgram& program);

  /// The value that a node writes to, or views; "" for a node without.
  static std::string self_of(const ExportedNode& node);
  /// The values that a node reads.
  static std::vector<std::string> read_by(const ExportedNode& node);
  /// Null for a value that has memory of its own.
  const MemoryView* find(const std::string& value) const;
  /// The value in whose memory this one lies.
  const std::string& root(const std::string& value) const;
  /// The views of a root that nodes up to `node` make and that are read behind it, and those that
  /// they are made of, in order.
  std::vector<std::string> read_later(const std::string& root, std::size_t node) const;
  /// Whether a node or the end of the program may write to the memory of this root.
  bool may_be_written(const std::string& root) const { return written_.contains(root); }

 private:
  void note_writes(const ExportedProgram& program);

  std::map<std::string, MemoryView> views_;
  std::vector<std::string> order_;  ///< of views, as they are made
  std::map<std::string, std::size_t> last_read_;
  std::set<std::string> written_;  ///< roots
};

/// Throws Unsupported for a view that may be a copy.
void require_view(const ExportedNode& node, const MemoryView& view);

/// The value that is viewed, once the view is `written`. `viewed` is what it was. Throws
/// Unsupported for a view that may not be written so.
Value write_back(const Call& call, const MemoryView& view, const Value& viewed,
                 const Value& written);

}  // namespace metronome::pt2
