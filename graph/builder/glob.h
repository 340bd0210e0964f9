// Paths by a pattern.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace metronome {

/// True where `glob` is `path` or a scope that it lies in. `*` stands for any letters of one part,
/// `?` for one of them, `**`, as a part, for any parts, also none: "tower/*/linear" and "**/weight"
/// are both of "tower/3/linear/weight".
bool glob_finds(std::string_view glob, std::string_view path);

/// Of `paths` and the scopes that they lie in, up to three that someone may have meant who wrote
/// `glob`, which finds none of them, the nearest first: a sibling ("heads_1" for "heads"), the same
/// in another scope ("tower/0/linear" for "linear"), or a few letters away.
std::vector<std::string> near_paths(std::string_view glob, std::span<const std::string> paths);

}  // namespace metronome
