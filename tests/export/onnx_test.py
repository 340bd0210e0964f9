"""ONNX models compute what their executables do: the checker takes them, and ONNX Runtime runs them.

    onnx_test.py ONNX_CASES KIND OPSET [FOLDER]

KIND is ops, layers, models, programs, sizes, shapes, steps or edges (onnx_cases.cc), OPSET 17 or 23; models are kept in FOLDER if it is given. Numbers of f32 may differ by 1e-5 and those of f64 by 1e-12 of
the largest of their array, or of 1; at the edges, of each number. Needs onnx and onnxruntime, which `./metronome peers` installs.
"""

import collections
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

PACKAGES = ["numpy", "onnx", "onnxruntime"]


def missing(packages=PACKAGES):
    return [name for name in packages if importlib.util.find_spec(name) is None]


def begin_again():
    """In the Python of the cache that has the packages, if this one lacks them."""
    own = pathlib.Path(sys.executable).absolute().parent.parent
    tools = own.with_name(own.name.replace("python-torch", "python-tools-torch")) / "bin" / "python"
    if missing() and tools.exists() and own != tools.parent.parent:
        os.execv(tools, [str(tools), *sys.argv])


begin_again()
if not missing():
    import numpy
    import onnx
    import onnxruntime

ONNX_CASES, KIND, OPSET, FOLDER = (*sys.argv[1:5], None)[:4]
TOLERANCE = {"float32": 1e-5, "float64": 1e-12}

# The ops that are refused, and why; then those of each kind of models. Programs of several shapes are refused for many
# reasons.
REASONS = {
    "index_copy": "ONNX leaves open which of equal indices counts",
    "random": "it draws at random",
    "route": "how many places an expert has depends on the rows",
    "shuffle": "it draws at random",
}
REFUSED = collections.defaultdict(set, models={"route"}, programs={"index_copy", "random", "shuffle"})
# Elements of two bytes, which each op refuses.
HALF = re.compile(r"it has elements of b?f16; f32, f64, i32, i64 and bool can be written")


def arrays(file):
    """The arrays of a file of onnx_cases: {"in": {name: array}, "out": ...}."""
    found = {"in": {}, "out": {}}
    elements = {"f32": "float32", "f64": "float64", "i32": "int32", "i64": "int64", "bool": "bool"}
    with open(file, "rb") as source:
        for line in source:
            kind, name, element, sizes = line.decode().rstrip("\n").split("\t")
            if element not in elements:  # of two bytes: refused
                return None
            shape = [int(size) for size in sizes.split()]
            array = numpy.zeros(shape, elements[element])
            array = numpy.frombuffer(source.read(array.nbytes), array.dtype).reshape(shape)
            found[kind][name] = array
    return found


def distance(made, wanted):
    """How far apart two arrays are, relative to the largest number; infinite if NaN or infinities differ."""
    if made.shape != wanted.shape or made.dtype != wanted.dtype:
        return float("inf")
    if made.size == 0:
        return 0.0
    if made.dtype.kind != "f":
        return 0.0 if (made == wanted).all() else float("inf")
    finite = numpy.isfinite(wanted)
    if not numpy.array_equal(made[~finite], wanted[~finite], equal_nan=True):
        return float("inf")
    if not finite.any():
        return 0.0
    largest = numpy.maximum(1.0, numpy.abs(wanted[finite]) if KIND == "edges" else numpy.abs(wanted[finite]).max())
    return float((numpy.abs(made[finite] - wanted[finite]) / largest).max())


@unittest.skipIf(missing(), f"{', '.join(missing())} not installed")
class OnnxModels(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(FOLDER or cls.place.name)
        subprocess.run([ONNX_CASES, cls.folder, KIND, OPSET], check=True)
        cls.options = onnxruntime.SessionOptions()
        cls.options.intra_op_num_threads = 1
        cls.options.log_severity_level = 3

    @classmethod
    def tearDownClass(cls):
        cls.place.cleanup()

    def compare(self, file, session, worst):
        both = arrays(file)
        if both is None:
            return
        named = {port.name for port in session.get_inputs()}
        fed = {name: array for name, array in both["in"].items() if name in named}
        names = [port.name for port in session.get_outputs()]
        for name, made in zip(names, session.run(names, fed)):
            wanted = both["out"][name]
            apart = distance(made, wanted)
            element = str(wanted.dtype)
            worst[element] = max(worst[element], (apart, f"{file.name}: {name}"))
            self.assertLessEqual(apart, TOLERANCE.get(element, 0), f"{file.name}: {name}\n{made}\n{wanted}")

    def test_they_compute_what_their_executables_do(self):
        models = sorted(self.folder.glob("*.onnx"))
        self.assertNotEqual(models, [])
        worst = collections.defaultdict(lambda: (0.0, ""))
        for model in models:
            with self.subTest(model.stem):
                proto = onnx.load(model)
                self.assertEqual(proto.producer_name, "metronome")
                onnx.checker.check_model(proto, full_check=True)
                names = [node.name for node in proto.graph.node]
                self.assertEqual(len(names), len(set(names)))
                session = onnxruntime.InferenceSession(
                    model, self.options, providers=["CPUExecutionProvider"]
                )
                runs = list(self.folder.glob(f"{model.stem}.[0-9]*"))
                self.assertNotEqual(runs, [])
                for file in runs:
                    self.compare(file, session, worst)
        print(f"{len(models)} models; worst:")
        for element, (apart, where) in sorted(worst.items()):
            print(f"  {element} {apart:.1e} ({where})")

    def test_layers_stay_whole(self):
        operators = {"gru_seq-f32": {"GRU"}, "lstm_seq-f32": {"LSTM"}, "convnet-f32": {"Conv", "Gemm"}}
        if OPSET == "23":
            operators["transformer-f32"] = {"Attention", "LayerNormalization"}
        for name, whole in operators.items() if KIND == "models" else ():
            proto = onnx.load(self.folder / f"{name}.onnx")
            self.assertLessEqual(whole, {node.op_type for node in proto.graph.node}, name)

    def test_what_cannot_be_said_is_refused_by_name(self):
        refused = set()
        for line in (self.folder / "refused").read_text().splitlines():
            name, error = line.split("\t")
            self.assertFalse((self.folder / f"{name}.onnx").exists())
            if KIND == "shapes":
                continue
            op, why = re.fullmatch(r'graph "\w+": (\w+) .*cannot be written to ONNX: (.*)', error).groups()
            if not HALF.fullmatch(why):
                self.assertRegex(why, REASONS.get(op, "^$"), error)
                refused.add(op)
        self.assertEqual(refused, REFUSED[KIND])


if __name__ == "__main__":
    if missing():
        print(f"skipped: ONNX models, {KIND} ({', '.join(missing())} not installed)", flush=True)
    del sys.argv[1:]
    unittest.main()
