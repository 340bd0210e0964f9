// Parts of a file's JSON, each of which must be what it should be. Internal to executor/import.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "executor/import/file/archive.h"
#include "executor/import/file/exported.h"

namespace metronome::pt2 {

// Each throws ImportRefusal; `what` is how its text begins.

/// The one member of a JSON object, as of {"as_int": 3}.
inline std::pair<std::string, const Json*> only_member(const Json& object, std::string_view what) {
  if (!object.is_object() || object.size() != 1) {
    refuse(fmt::format("{} is no object of one member: {}", what, object.dump().substr(0, 80)));
  }
  return {object.begin().key(), &object.begin().value()};
}

/// The text of nlohmann's exception, without its number.
inline std::string reason_of(const Json::exception& error) {
  const std::string_view text = error.what();
  const std::size_t end = text.find("] ");
  return std::string(end == text.npos ? text : text.substr(end + 2));
}

inline const Json& member(const Json& object, const char* name, std::string_view what) {
  if (!object.is_object() || !object.contains(name)) {
    refuse(fmt::format("{} has no \"{}\"", what, name));
  }
  return object[name];
}

inline std::string string_in(const Json& object, const char* name, std::string_view what) {
  const Json& found = member(object, name, what);
  if (!found.is_string()) refuse(fmt::format("\"{}\" of {} is no string", name, what));
  return found.get<std::string>();
}

inline const Json& list_in(const Json& object, const char* name, std::string_view what) {
  const Json& found = member(object, name, what);
  if (!found.is_array()) refuse(fmt::format("\"{}\" of {} is no list", name, what));
  return found;
}

/// The name of an argument or output that is a tensor; "" for another.
inline std::string tensor_name(const Json& argument, std::string_view what) {
  const auto [kind, value] = only_member(argument, what);
  return kind == "as_tensor" ? string_in(*value, "name", what) : "";
}

/// The type that a tensor's description has. Sizes must be numbers.
Type type_of(const Json& meta, std::string_view what);

/// Whether a tensor's elements lie row by row, without gaps, as its strides say. A tensor without
/// elements does.
bool lies_in_order(const Json& meta, const Type& type, std::string_view what);

/// Adds the nodes and types of a graph to a program. Regions of no_grad, and of autocast where it
/// is off, become nodes of the graph around them: their values' names get the region's before them,
/// and what leaves a region of no_grad is detached.
void read_nodes(const Json& graph, ExportedProgram& program);

}  // namespace metronome::pt2
