"""Ways out that no test follows: planted ones are found, and this tree has none."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import ways_out  # noqa: E402

# Where else than in ways_out_*_test.cc a test follows one.
ELSEWHERE = {
    "tests/executor/compile/environment_test.cc": [
        "name some of {}, with commas between them",
        "name a folder that exists",
        "give trace, debug, info, warn, error, critical or off",
    ],
    "tests/executor/checkpoint/weights_test.cc": [
        "give its scope another name, or save a checkpoint, without options",
    ],
    "tests/import/refusals_test.cc": [
        "name one as the option `model`",
        "give the most iterations as the option `max_iterations`",
    ],
    "tests/export/export_test.cc": [
        "compile it with mt::cpu_replay() and mt::for_export(options)",
        "give ExportOptions::name",
    ],
    "tests/export/onnx_file_test.cc": ["give 17 or 23"],
    "tests/ops/optimizers/adaptive_test.cc": ["give the average another name"],
    "tests/executor/compile/own_ops_test.cc": [
        "name it in CompileOptions::ops, as own_ops<...>(), with a kernel, or give it the rule `lower`",
        "give it the rule `record` or `portable`, or `lower`",
    ],
    "tests/executor/cpu/free_memory_test.cc": ["give it smaller shapes or a smaller batch, or more memory"],
    "tests/executor/run/broken_steps_test.cc": [
        "run another first",
        "load a checkpoint, or compile the graph again",
    ],
    "tests/executor/cuda/device_tensors_test.cc": [
        "move it to {}the host",
        "give tensor.contiguous()",
        "give it the device where they lie",
    ],
    "tests/executor/cuda/dlpack_test.cc": [
        "give one of f32, f64, i32, i64, bool, bf16 or f16",
        "move it to the host or to a CUDA device",
    ],
    "tests/ops/kernels/table_test.cc": ["take {}"],
    "tests/source/misuse_test.py": [
        "use mt::where for each element, Value::choose for branches, Loop::until or Loop::while_true for loops "
        "(Value::present tells a value from a default-made one)",
        "use mt::logical_and",
        "use mt::logical_or",
        "use mt::logical_not",
    ],
}
# Those that no test on a CPU can follow.
LEFT_OUT = {
    "let its Bazel target depend on @metronome//:{} too": "the program has to be linked anew",
    "build it without --define=metronome_isa={}": "the program has to be built anew",
    "what ranks do together needs CompileOptions::world": "of distributed/, which is tested there",
    "give one of them, as the second is a world, too": "of distributed/, which is tested there",
    "install torch with its dependencies, or name their folders in LD_LIBRARY_PATH": "asks for a GPU",
    "compile for eager on a GPU first, or set LD_PRELOAD=libtorch_cuda.so": "asks for a GPU",
    "call %s_feed first": "of exported libraries: tests/export/drive.c follows it",
    "call %s_load first": "of exported libraries: tests/export/example_test.py follows it",
    "move it with tensor.cpu()": "asks for a tensor on a GPU",
}


def found_in(text, room="graph"):
    return [way_out for way_out, _ in ways_out.ways_out(text, room)]


class WaysOut(unittest.TestCase):
    def test_the_second_text_of_a_pair_is_one(self):
        self.assertEqual(found_in('throw Requirement{"a scalar", "reduce it"};'), ["reduce it"])
        self.assertEqual(
            found_in('refuse({fmt::format("f32, but {}", t), half ? fmt::format("cast {} to {}", "x") : ""});'),
            ["cast {} to {}"],
        )
        self.assertEqual(
            found_in('mistake(e, {x}, {"an axis",\n  "if so: {.axis = 1} "  // as here\n  "or none"});'),
            ["if so: {.axis = 1} or none"],
        )
        self.assertEqual(found_in('Requirement{"a name"}; f("a b", "c d"); Names{"a b", "c d", "e f"};'), [])

    def test_what_is_called_so_is_one(self):
        self.assertEqual(found_in('wrong->way_out = fits ? "reshape it" : "cut it";'), ["reshape it", "cut it"])
        self.assertEqual(
            found_in('void no(Value x, std::string way_out = "") { f("a b"); }\nno(x, fmt::format("try {}", y));'),
            ["try {}"],
        )
        self.assertEqual(
            found_in('std::string way_to_equal(const Types& types) {\n  return fmt::format("cast {}", n);\n}'),
            ["cast {}"],
        )
        self.assertEqual(found_in('"{}: no operand\\n" "  way out    begin with x\\n  and more"'), ["begin with x"])

    def test_advice_in_a_sentence_is_one(self):
        self.assertEqual(
            found_in('RunError("no such step; run one first; the last is {}"); f(": call run(){}");', "executor"),
            ["run one first", "call run(){}"],
        )
        texts = '"pad to it or declare it"; "runs of it"; "set of it"'
        self.assertEqual(found_in(texts, "executor"), ["pad to it or declare it"])
        self.assertEqual(found_in('"pad cannot be made"'), [])

    def test_a_test_follows_it_by_its_words(self):
        source = {"ops/a.cc": '\nRequirement{"a scalar", "cast it to {}: x.reshape({{{}}})"}'}
        self.assertEqual(
            ways_out.not_followed(source, {"a_test.cc": 'TEST_CASE("cast it to f32: x.reshape({1})") {}'}),
            [("ops/a.cc", 2, "cast it to {}: x.reshape({{{}}})")],
        )
        by_words = {"a_test.cc": '{"so: cast it to " "f32: x.reshape({1})"}'}
        self.assertEqual(ways_out.not_followed(source, by_words), [])


class Tree(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        read = {
            str(path): path.read_text(encoding="utf-8")
            for room in ("graph", "ops", "executor", "tests")
            for path in pathlib.Path(room).rglob("*")
            if path.suffix in (".h", ".cc", ".py")
        }
        skipped = ("tests/", "executor/cuda/")  # the second asks for a GPU
        cls.sources = {file: text for file, text in read.items() if not file.startswith(skipped)}
        cls.files = read
        cls.tests = {file: text for file, text in read.items() if "/ways_out_of_" in file}

    def test_each_is_followed(self):
        known = [way_out for some in ELSEWHERE.values() for way_out in some] + list(LEFT_OUT)
        missing = [one for one in ways_out.not_followed(self.sources, self.tests) if one[2] not in known]
        self.assertEqual(missing, [])

    def test_the_test_sees_what_it_is_to_read(self):
        found = {way for file, text in self.sources.items() for way, _ in ways_out.ways_out(text, file.split("/")[0])}
        self.assertGreater(len(found), 90)
        self.assertGreater(len(self.tests), 3)

    def test_the_lists_hold_no_others(self):
        for file, listed in ELSEWHERE.items():
            only_here = {file: self.files[file]}
            for way_out in listed:
                source = {"graph/a.cc": f'Requirement{{"it", R"({way_out})"}}'}
                self.assertEqual(ways_out.not_followed(source, only_here), [], file)
        missing = {way_out for _, _, way_out in ways_out.not_followed(self.sources, self.tests)}
        self.assertEqual({way_out for some in ELSEWHERE.values() for way_out in some} | set(LEFT_OUT), missing)


if __name__ == "__main__":
    unittest.main()
