// Paths by a pattern.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace metronome {

/// True if `glob` is `path` or a scope that it lies in. `*` stands for any letters of one part,
/// `?` for one of them, `**`, as a part, for any parts, also none: "tower/*/linear" and "**/weight"
/// are both of "tower/3/linear/weight".
bool glob_finds(std::string_view glob, std::string_view path);

/// For a `glob` that finds none of `paths`: up to three of them, or of the scopes that they lie in,
/// that its author may have meant, the nearest first: a sibling ("heads_1" for "heads"), the same
/// in another scope ("tower/0/linear" for "linear"), or a few letters away.
std::vector<std::string> near_paths(std::string_view glob, std::span<const std::string> paths);

}  // namespace metronome
