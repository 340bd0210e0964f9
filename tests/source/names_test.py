"""docs/names.md says what the headers say."""

import unittest
from pathlib import Path

import names

HEADER = """// Layers and losses.
// In two lines.
//
// And more.
#pragma once

namespace metronome {

/// Who chooses.
enum class Chooser : std::uint8_t {
  row,  ///< each row
  /// Each expert,
  /// in turn.
  expert,
};
enum class Kind : std::uint8_t { mean, sum };

// ---- functions ---------------------------------------------------------------------------------

/// Both.
inline constexpr UnaryFunction floor{Function::floor};
inline constexpr UnaryFunction ceil{Function::ceil};
inline constexpr UnaryFunction round{Function::round};  ///< to even

struct DropOptions {
  double p = 0.5, q = 1;  ///< |p| below 1
  /// Absent: none.
  Value mask = {};
  bool operator==(const DropOptions&) const = default;
};
/// Zeroes some, as in
///
/// a paper.
Value drop(Value x, const std::vector<std::int64_t>& axes = {}, DropOptions options = {.p = 1},
           Line line = Line::here());
template <class T>
Layer drop(T p = 0, DropOptions options = {});
Value bare(Value x);

void require_it(bool it);

/// No function of a model.
class Held {
 public:
  Value operator()(Value x) const { return x; }
};

namespace metrics {

/// A share.
Value share(Value x);

}  // namespace metrics

}  // namespace metronome
"""

TABLE = """## ops/x.h
Layers and losses. In two lines.

| name | meaning |
|---|---|
| `Chooser` | Who chooses. `row`: each row; `expert`: Each expert, in turn |
| `Kind` | Who chooses. `mean`; `sum` |
| `floor`, `ceil` | Both. |
| `round` | Both; to even |
| `DropOptions` | `.p = 0.5, .q = 1`: \\|p\\| below 1; `.mask`: Absent: none |
| `drop(x, axes, options = {.p = 1})`, `drop(p = 0, options)`, `bare(x)` | Zeroes some, as in a paper. |
| `metrics::share(x)` | A share. |
"""


class Names(unittest.TestCase):
    maxDiff = None

    def test_a_header(self):
        expected = TABLE.replace("| `Kind` | Who chooses. ", "| `Kind` | ")
        self.assertEqual(names.section("ops/x.h", HEADER), expected)

    def test_headers_of_the_front_door(self):
        front = '#include "ops/layers/norms.h"  // norms\n#include "executor/run/feed.h"\n#include "ops/losses/losses.h"\n'
        self.assertEqual(names.headers(front), ["ops/layers/norms.h", "ops/losses/losses.h", *names.ALSO])

    def test_the_page_is_the_headers(self):
        self.assertEqual(names.PAGE.read_text(encoding="utf-8"), names.page(), "run python3 tests/source/names.py")

    def test_each_name_has_a_meaning(self):
        for path in names.headers(names.FRONT.read_text(encoding="utf-8")):
            rows = names.rows_of(Path(path).read_text(encoding="utf-8"))
            self.assertGreater(len(rows), 0, path)
            for called, meaning in rows:
                self.assertTrue(meaning, f"{path}: say of {called} what it is")


if __name__ == "__main__":
    unittest.main()
