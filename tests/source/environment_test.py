"""Variables of the environment: planted mistakes are found, and the guide lists all that this tree reads."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import environment  # noqa: E402

GUIDE = pathlib.Path("docs/guide.md")
FOLDERS = ("benchmarks", "distributed", "executor", "graph", "models", "ops", "tests", "third_party")
ENDINGS = (".bzl", ".cc", ".cu", ".h", ".py", ".sh")
LAUNCHER = "tests/launcher/metronome"  # a link to ./metronome
# Their texts are examples of mistakes.
OWN = ("tests/source/environment.py", "tests/source/environment_test.py")


def names(file, text):
    return [name for name, _ in environment.read(file, text)]


class Environment(unittest.TestCase):
    def test_the_product_reads_what_it_names_and_does_not_set(self):
        text = """
const char* given = std::getenv("METRONOME_FIRST");
inline constexpr DataSet kData{"METRONOME_SECOND", 8};
setenv("METRONOME_SET", "1", 1);
unsetenv("METRONOME_SET");
throw RunError("METRONOME_MESSAGE=x: no such level");
#ifdef METRONOME_MACRO
"""
        self.assertEqual(list(environment.read("ops/a.cc", text)), [("METRONOME_FIRST", 2), ("METRONOME_SECOND", 3)])

    def test_tests_read_by_getenv(self):
        text = 'getenv("METRONOME_A"); environment("METRONOME_B"); const Variable v("METRONOME_C", "1"); f("METRONOME_D");'
        self.assertEqual(names("tests/a_test.cc", text), ["METRONOME_A", "METRONOME_B"])

    def test_python_and_bazel_read_environ(self):
        text = """
a = os.environ.get("METRONOME_A", "") + os.environ["METRONOME_B"] + ctx.os.environ.get('METRONOME_C')
if "METRONOME_D" not in os.environ: os.environ.pop("METRONOME_E")
os.environ["METRONOME_SET"] = "1"
environment = {"METRONOME_SET": "1"}
same = os.environ["METRONOME_F"] == "1"
"""
        expected = [f"METRONOME_{letter}" for letter in "ABCDEF"]
        self.assertEqual(names("benchmarks/a.py", text), expected)
        self.assertEqual(names("third_party/a.bzl", text), expected)

    def test_scripts_read_what_they_expand(self):
        text = 'METRONOME_SET=1 run "$METRONOME_A" "${METRONOME_B:-}" ${#METRONOME_C}; export METRONOME_SET=2'
        self.assertEqual(names("metronome", text), ["METRONOME_A", "METRONOME_B", "METRONOME_C"])
        self.assertEqual(names("tests/a.sh", text), ["METRONOME_A", "METRONOME_B", "METRONOME_C"])

    def test_both_sides_are_told_of_with_their_places(self):
        guide = (
            "- `METRONOME_ABOVE` is of another list.\n## Environment variables\n"
            "- `METRONOME_A` is read,\n  beside `METRONOME_B`.\n- `METRONOME_OLD` is not.\n"
            "## More\n- `METRONOME_BELOW`\n"
        )
        texts = {"b.sh": "$METRONOME_A", "a.sh": "\n$METRONOME_A $METRONOME_B\n$METRONOME_B"}
        self.assertEqual(
            environment.mistakes(texts, guide, "guide.md"),
            [
                "a.sh:2 reads METRONOME_B, which guide.md does not list",
                "guide.md:5 lists METRONOME_OLD, which nothing reads",
            ],
        )

    def test_the_guide_lists_what_this_tree_reads(self):
        files = [file for folder in FOLDERS for file in pathlib.Path(folder).rglob("*") if file.suffix in ENDINGS]
        texts = {str(file): file.read_text(encoding="utf-8") for file in files if str(file) not in OWN}
        texts["metronome"] = pathlib.Path(LAUNCHER).read_text(encoding="utf-8")
        self.assertGreater(len(texts), 1000)
        guide = GUIDE.read_text(encoding="utf-8")
        self.assertGreater(len(environment.listed(guide)), 20)
        self.assertEqual(environment.mistakes(texts, guide, str(GUIDE)), [])


if __name__ == "__main__":
    unittest.main()
