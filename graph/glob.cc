#include "graph/glob.h"

#include <span>
#include <vector>

namespace metronome {
namespace {

using Parts = std::vector<std::string_view>;

Parts parts_of(std::string_view path) {
  Parts parts;
  for (std::size_t slash = path.find('/'); slash != path.npos; slash = path.find('/')) {
    parts.push_back(path.substr(0, slash));
    path.remove_prefix(slash + 1);
  }
  parts.push_back(path);
  return parts;
}

bool finds(std::string_view glob, std::string_view part) {
  if (glob.empty()) return part.empty();
  if (glob[0] == '*' && finds(glob.substr(1), part)) return true;
  if (part.empty()) return false;
  if (glob[0] == '*') return finds(glob, part.substr(1));
  return (glob[0] == '?' || glob[0] == part[0]) && finds(glob.substr(1), part.substr(1));
}

bool finds(std::span<const std::string_view> glob, std::span<const std::string_view> path) {
  if (glob.empty()) return true;  // what is left of the path lies below
  if (glob[0] == "**" && finds(glob.subspan(1), path)) return true;
  if (path.empty()) return false;
  if (glob[0] == "**") return finds(glob, path.subspan(1));
  return finds(glob[0], path[0]) && finds(glob.subspan(1), path.subspan(1));
}

}  // namespace

bool glob_finds(std::string_view glob, std::string_view path) {
  return finds(parts_of(glob), parts_of(path));
}

}  // namespace metronome
