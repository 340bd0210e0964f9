"""An op that misdeclares a rule, or lacks one, is refused by the compiler in words that help."""

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
# An op of a user's own, with rules beside it. fmt and libtorch are stood for by their names.
OWN_PROGRAM = """
#include "ops/own/own_ops.h"
namespace mine {{
using namespace metronome;
struct Twice {{
  static constexpr std::string_view name = "twice";
  bool operator==(const Twice&) const = default;
  Types infer(std::span<const Type> in) const {{ return {{in[0]}}; }}
  Values vjp(const Vjp& v) const {{ return {{v.grad()}}; }}
  {}
}};
{}
OwnOps ops() {{ return own_ops<Twice>(); }}
}}
"""
STANDINS = {
    "fmt/format.h": "#include <string>\nnamespace fmt { template <class... T> std::string format(const char*, T...); }",
    "ATen/core/Tensor.h": "namespace at { class Tensor {}; }",
}
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
BIND = "CpuKernel bind(const Twice& op, const CpuLaunch& launch);"
RECORD = "void record(const Twice& op, const CudaLaunch& launch);"
PORTABLE = "void portable(const Twice& op, const auto& launch, auto& play);"
REFERENCE = "Tensors reference(const Twice& op, const Tensors& inputs);"
OWN_FINE = [
    [BIND, REFERENCE],
    [BIND, RECORD, REFERENCE],
    [PORTABLE, REFERENCE],
    [BIND, REFERENCE, "std::vector<Candidate> candidates(const Twice& op, const CpuQuery& query);"],
]
NO_KERNEL = (
    "an op of own_ops needs, in its namespace: CpuKernel bind(const Op&, const CpuLaunch&), or void portable(const Op&, "
    "const auto& launch, auto& play); one that `lower` expands needs neither, and no own_ops"
)
NO_REFERENCE = "an op of own_ops needs, in its namespace: Tensors reference(const Op&, const Tensors&)"
OWN_WRONG = [
    ("", [REFERENCE], NO_KERNEL),
    ("", [RECORD, REFERENCE], NO_KERNEL),
    ("", ["void bind(const Twice& op, const CpuLaunch& launch);", REFERENCE], NO_KERNEL),
    ("", [BIND], NO_REFERENCE),
    ("", [BIND, "at::Tensor reference(const Twice& op, const Tensors& inputs);"], NO_REFERENCE),
    (
        "static constexpr bool batches = true;",
        [BIND, REFERENCE],
        "an op of own_ops may not have the rule `batches`",
    ),
]


def compiler(folder, *arguments):
    command = [os.environ.get("CXX", "g++"), "-std=c++20", "-fno-diagnostics-color", "-I" + folder, "-I.", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}).stderr


def errors_of(program):
    path = os.path.join(Folder.path, "program.cc")
    with open(path, "w", encoding="utf-8") as file:
        file.write(program)
    return re.findall(r"error: (.*)", compiler(Folder.path, "-fsyntax-only", path))


class Folder:
    """The stand-ins, and both programs' headers, which are most of a program's compile, parsed once."""

    path = ""


def setUpModule():
    folder = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(folder.cleanup)
    Folder.path = folder.name
    for name, text in STANDINS.items():
        path = os.path.join(folder.name, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    for header in ("graph/ir/op_model.h", "ops/own/own_ops.h"):
        parsed = os.path.join(folder.name, header + ".gch")
        os.makedirs(os.path.dirname(parsed), exist_ok=True)
        compiler(folder.name, "-x", "c++-header", header, "-o", parsed)


def with_members(rules):
    return PROGRAM.format("\n  ".join(rules))


class OpRules(unittest.TestCase):
    def test_each_is_refused_in_these_words(self):
        for rules, words in WRONG:
            with self.subTest(rules[-1]):
                self.assertIn(f"static assertion failed: {words}", errors_of(with_members(rules)))

    def test_what_is_right_compiles(self):
        for rules in FINE:
            with self.subTest(rules[-1]):
                self.assertEqual(errors_of(with_members(rules)), [])

    def test_what_an_op_of_ones_own_lacks_is_said(self):
        for members, rules, words in OWN_WRONG:
            with self.subTest(words + str(rules)):
                errors = errors_of(OWN_PROGRAM.format(members, "\n".join(rules)))
                self.assertEqual(errors, [f"static assertion failed: {words}"])

    def test_an_op_of_ones_own_compiles(self):
        for rules in OWN_FINE:
            with self.subTest(str(rules)):
                self.assertEqual(errors_of(OWN_PROGRAM.format("", "\n".join(rules))), [])


if __name__ == "__main__":
    unittest.main()
