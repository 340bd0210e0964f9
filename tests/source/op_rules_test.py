"""An op whose struct misdeclares a rule, or lacks one, is refused by the compiler in words that help."""

import os
import re
import subprocess
import tempfile
import unittest

PROGRAM = """
#include "graph/ir/op_model.h"
namespace metronome {{
struct Twice {{
  static constexpr std::string_view name = "twice";
  bool operator==(const Twice&) const = default;
  {}
}};
OpPtr twice() {{ return make_op(Twice{{}}); }}
}}
"""
INFER = "Types infer(std::span<const Type> in) const { return {in[0]}; }"
VJP = "Values vjp(const Vjp& v) const { return {v.grad(), v.grad()}; }"
FINE = [
    [INFER, VJP],
    [INFER, "Values lower(std::span<const Value> in) const { return {in[0]}; }"],
    [INFER, VJP, "Values lower(std::span<const Value> in) const { return {in[0]}; }"],
    [INFER, "static constexpr bool differentiable = false;"],
    [INFER, VJP, "std::vector<InPlace> in_place() const { return {{0, 0}}; }"],
]
MUST = "this rule must be: "
WRONG = [
    ([VJP], "an op needs: Types infer(std::span<const Type>) const"),
    ([VJP, "Types infer(const Types& in) const { return in; }"], MUST + "Types infer(std::span<const Type>) const"),
    (
        [INFER],
        "an op needs a gradient: Values vjp(const Vjp&) const, or Values lower(std::span<const Value>) const, or "
        "static constexpr bool differentiable = false",
    ),
    ([INFER, "Values vjp(Vjp& v) const { return {v.grad()}; }"], MUST + "Values vjp(const Vjp&) const"),
    ([INFER, VJP, "std::vector<InPlace> in_place(int) const;"], MUST + "std::vector<InPlace> in_place() const"),
    ([INFER, VJP, "std::vector<InPlace> in_place();"], MUST + "std::vector<InPlace> in_place() const"),
    ([INFER, VJP, "Alias alias(std::span<const Type>) const;"], MUST + "std::optional<Alias> alias(std::span<const Type>) const"),
    ([INFER, VJP, "template <class T> bool moves(T) const;"], MUST + "bool moves() const"),
    ([INFER, VJP, "static constexpr unsigned saved = 1;"], MUST + "static constexpr int saved"),
    ([INFER, VJP, "bool effects = true;"], MUST + "static constexpr bool effects"),
]


def errors_of(rules):
    with tempfile.NamedTemporaryFile("w", suffix=".cc") as program:
        program.write(PROGRAM.format("\n  ".join(rules)))
        program.flush()
        command = [os.environ.get("CXX", "g++"), "-std=c++20", "-fno-diagnostics-color", "-fsyntax-only", "-I."]
        environment = {**os.environ, "LC_ALL": "C"}
        said = subprocess.run([*command, program.name], capture_output=True, text=True, env=environment).stderr
        return re.findall(r"error: (.*)", said)


class OpRules(unittest.TestCase):
    def test_each_is_refused_in_these_words(self):
        for rules, words in WRONG:
            with self.subTest(rules[-1]):
                self.assertIn(f"static assertion failed: {words}", errors_of(rules))

    def test_what_is_right_compiles(self):
        for rules in FINE:
            with self.subTest(rules[-1]):
                self.assertEqual(errors_of(rules), [])


if __name__ == "__main__":
    unittest.main()
