#include "graph/builder/glob.h"

#include <algorithm>
#include <set>
#include <tuple>

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

namespace {

/// The fewest letters to add, take away or change so that `glob` finds all of `text` (Levenshtein,
/// 1966); a `*` stands for any letters at no cost, `?` for one.
std::size_t distance(std::string_view glob, std::string_view text) {
  std::vector<std::size_t> row(text.size() + 1);  // of the glob's letters so far, to text's first j
  for (std::size_t j = 0; j <= text.size(); ++j) row[j] = j;
  for (const char letter : glob) {
    std::size_t corner = row[0];
    if (letter != '*') ++row[0];
    for (std::size_t j = 1; j <= text.size(); ++j) {
      const std::size_t above = row[j];
      if (letter == '*') {
        row[j] = std::min(above, row[j - 1]);
      } else {
        const bool same = letter == '?' || letter == text[j - 1];
        row[j] = std::min({above + 1, row[j - 1] + 1, corner + (same ? 0 : 1)});
      }
      corner = above;
    }
  }
  return row[text.size()];
}

/// "heads" and "heads_1", "heads_2" and "heads_1".
std::string_view without_number(std::string_view path) {
  const std::size_t end = path.find_last_not_of("0123456789");
  return end != path.npos && end + 1 < path.size() && path[end] == '_' ? path.substr(0, end) : path;
}

/// A glob without the parts "**" at its ends.
struct Core {
  explicit Core(std::string_view glob) : text(glob) {
    for (; text.starts_with("**/"); text.remove_prefix(3)) anywhere = true;
    while (text.ends_with("/**")) text.remove_suffix(3);
  }

  /// From a path, or from its last parts where the glob lets others come before them.
  std::size_t distance_from(std::string_view path) const {
    std::size_t least = distance(text, path);
    if (!anywhere) return least;
    std::size_t parts = static_cast<std::size_t>(std::ranges::count(text, '/')) + 1,
                begin = path.npos;
    for (; parts > 0 && begin != 0; --parts) {
      begin = path.rfind('/', begin == path.npos ? begin : begin - 1);
      if (begin == path.npos) return least;
    }
    return std::min(least, distance(text, path.substr(begin + 1)));
  }

  std::string_view text;
  bool anywhere = false;
};

constexpr std::size_t kMostNear = 3;

}  // namespace

std::vector<std::string> near_paths(std::string_view glob, std::span<const std::string> paths) {
  std::set<std::string> candidates;
  for (const std::string& path : paths) {
    for (std::size_t end = path.find('/'); end != path.npos; end = path.find('/', end + 1)) {
      candidates.insert(path.substr(0, end));
    }
    candidates.insert(path);
  }
  // How near, then how long, then the path: a scope comes before what lies in it.
  std::vector<std::tuple<std::size_t, std::size_t, std::string>> near;
  const Core core(glob);
  for (const std::string& path : candidates) {
    std::size_t apart = core.distance_from(path);
    const bool sibling = without_number(core.text) == without_number(path);
    if (sibling || path.ends_with("/" + std::string(core.text))) apart = 1;
    if (apart <= std::max<std::size_t>(core.text.size() / 4, 1)) {
      near.emplace_back(apart, path.size(), path);
    }
  }
  std::sort(near.begin(), near.end());
  std::vector<std::string> result;
  for (std::size_t i = 0; i < std::min(near.size(), kMostNear); ++i) {
    result.push_back(std::get<2>(near[i]));
  }
  return result;
}

}  // namespace metronome
