// Paths by a pattern.
#pragma once

#include <string_view>

namespace metronome {

/// True where `glob` is `path` or a scope that it lies in. `*` stands for any letters of one part,
/// `?` for one of them, `**`, as a part, for any parts, also none: "tower/*/linear" and "**/weight"
/// are both of "tower/3/linear/weight".
bool glob_finds(std::string_view glob, std::string_view path);

}  // namespace metronome
