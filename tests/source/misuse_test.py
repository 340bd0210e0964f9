"""What C++ would read as a question to the host is refused by the compiler, in words that help.

A Value holds data that only a step knows. Each program below would branch on it, or evaluate it, as
if it were known while the graph is built.
"""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

CONDITION = (
    "C++ cannot branch on a Value, whose data only a step knows: use mt::where for each element, "
    "Value::choose for branches, Loop::until or Loop::while_true for loops (Value::present tells a "
    "value from a default-made one)"
)
AND = "&& cannot look into a Value: use mt::logical_and"
OR = "|| cannot look into a Value: use mt::logical_or"
NOT = "! cannot look into a Value: use mt::logical_not"

MISUSES = {
    "if (mt::mean(x) > 0.0) g.output(\"y\", x);": CONDITION,
    "while (x) x = x * 0.5;": CONDITION,
    "for (; mt::mean(x) < 1.0;) x = x * 2.0;": CONDITION,
    "do x = x * 2.0; while (x != y);": CONDITION,
    "x = x == y ? x : y;": CONDITION,
    "if (x == y) x = y;": CONDITION,
    "bool known{x};": CONDITION,
    "const bool known = static_cast<bool>(x);": CONDITION,
    "x = (x > 0.0) && (y > 0.0);": AND,
    "if (x && true) x = y;": AND,
    "x = (x > 0.0) || (y > 0.0);": OR,
    "if (true || x) x = y;": OR,
    "x = !(x > 0.0);": NOT,
    "if (!x) x = y;": NOT,
}
FINE = """
  x = mt::where(x == y, x, y) + mt::where(x != 0.0, x, y);
  x = (x == y).cast(mt::f32) * x + mt::logical_not(x > 0.0).cast(mt::f32);
  if (x.present() && !x.poisoned() && x.id() != y.id()) g.output("y", x);
"""


PRELUDE = """
#include "graph/builder/graph.h"
#include "ops/expr/functions.h"
namespace mt = metronome;
"""
BUILD = """
void build(mt::Graph& g, mt::Value x, mt::Value y) {{
  {}
  static_cast<void>(g), static_cast<void>(x), static_cast<void>(y);
}}
"""


class Misuse(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # The headers are compiled once, for all programs.
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        prelude = pathlib.Path(cls.folder.name, "prelude.h")
        prelude.write_text(PRELUDE)
        said = cls.compile("-x", "c++-header", prelude, "-o", f"{prelude}.gch")
        assert said == "", said

    @classmethod
    def compile(cls, *arguments):
        command = [os.environ.get("CXX", "g++"), "-std=c++20", "-fno-diagnostics-color", "-I.", *arguments]
        environment = {**os.environ, "LC_ALL": "C"}
        return subprocess.run(command, capture_output=True, text=True, env=environment).stderr

    def errors_of(self, body):
        program = pathlib.Path(self.folder.name, "program.cc")
        program.write_text(BUILD.format(body))
        prelude = pathlib.Path(self.folder.name, "prelude.h")
        return re.findall(r"error: (.*)", self.compile("-fsyntax-only", "-include", prelude, program))

    def test_each_is_refused_in_these_words(self):
        for body, words in MISUSES.items():
            with self.subTest(body):
                self.assertIn(f"static assertion failed: {words}", self.errors_of(body))

    def test_what_is_meant_compiles(self):
        self.assertEqual(self.errors_of(FINE), [])


if __name__ == "__main__":
    unittest.main()
