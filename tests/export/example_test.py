"""The guide's program in C is built and run as its first comment says: example_test.py METRONOME PROGRAM."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

DEPLOY = """
#include <stdio.h>
#include <string.h>

#include "deployed.h"
#include "policy.h"

int main(void) {
  float state[4 * 11], trained[4 * 3], action[4 * 3] = {0};
  policy* from = NULL;
  deployed* of = NULL;
  for (int i = 0; i < 44; ++i) state[i] = (float)i / 44;
  if (policy_create(&from, NULL, 0) != 0 || policy_load(from, "policy.safetensors") != 0) return 1;
  if (deployed_create(&of, NULL, 0) != 0) return 2;
  if (deployed_feed(of, DEPLOYED_INPUT_STATE, state, sizeof state) != 0) return 3;
  if (deployed_evaluate(of) != DEPLOYED_TOO_EARLY) return 4;
  printf("%s\\n", deployed_error(of));
  if (deployed_save(of, "nothing") != DEPLOYED_TOO_EARLY) return 5;
  printf("%s\\n", deployed_error(of));
  if (deployed_load(of, "policy.safetensors") != 0) return 6;
  if (deployed_evaluate(of) != 0 || deployed_read(of, DEPLOYED_OUTPUT_ANSWER, action, sizeof action) != 0) return 7;
  if (policy_feed(from, POLICY_INPUT_STATE, state, sizeof state) != 0 || policy_evaluate(from) != 0) return 8;
  if (policy_read(from, POLICY_OUTPUT_ANSWER, trained, sizeof trained) != 0) return 9;
  printf("%s\\n", memcmp(action, trained, sizeof action) == 0 ? "the same actions" : "other actions");
  if (deployed_save(of, "deployed.safetensors") != 0 || policy_load(from, "deployed.safetensors") != POLICY_WRONG_FILE) return 10;
  printf("%s\\n", policy_error(from));
  return 0;
}
"""
DEPLOYED = """deployed_evaluate: its weights lie in a file; call deployed_load first
deployed_save: its weights lie in a file; call deployed_load first
the same actions
policy_load: "deployed.safetensors" is of another model: it lacks "optimizer/exp_avg/actor/shared/linear/bias"
"""

METRONOME, PROGRAM = (pathlib.Path(file).resolve() for file in sys.argv[1:3])


class Example(unittest.TestCase):
    def test_commands_of_its_comment(self):
        if shutil.which("cmake") is None:
            print("skipped: an exported policy in C (cmake not installed)", flush=True)
            self.skipTest("cmake not installed")
        with tempfile.TemporaryDirectory() as place:
            (pathlib.Path(place) / "docs").mkdir()
            shutil.copy(PROGRAM, pathlib.Path(place) / "docs")
            comment = PROGRAM.read_text().split("*/")[0]
            commands = [line.removeprefix(" *   ") for line in comment.splitlines() if line.startswith(" *   ")]
            self.assertEqual(len(commands), 4)
            script = "\n".join(commands).replace("./metronome", str(METRONOME))
            done = subprocess.run(["bash", "-ec", script], capture_output=True, text=True, cwd=place)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertRegex(done.stdout, r"step 400: loss of the critics \d+\.\d{3}\naction( -?[01]\.\d{3}){3}\n\Z")
            self.assertTrue((pathlib.Path(place) / "policy.safetensors").exists())
            self.deploy(pathlib.Path(place))

    def deploy(self, place):
        """Gives what was trained in C to a library of evaluations alone, whose weights lie beside."""
        (place / "deploy.c").write_text(DEPLOY)
        script = f"""
{METRONOME} export sac deployed --name deployed --evaluate --beside
cmake -S deployed -B deployed/build -DDEPLOYED_OPTIMIZATION=-O1
cmake --build deployed/build
ctest --test-dir deployed/build --output-on-failure
gcc -c -std=c99 -Wall -Wextra -Wpedantic -Werror -Ipolicy -Ideployed deploy.c -o deploy.o
g++ deploy.o deployed/build/libdeployed.a policy/build/libpolicy.a -Wl,--gc-sections -o deploy && ./deploy
"""
        done = subprocess.run(["bash", "-ec", script], capture_output=True, text=True, cwd=place)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("100% tests passed, 0 tests failed out of 1", done.stdout)
        self.assertEqual(done.stdout[done.stdout.index("deployed_evaluate:") :], DEPLOYED)

    def test_evaluations_keep_the_kernels_that_they_take(self):
        if shutil.which("cmake") is None:
            print("skipped: exported evaluations (cmake not installed)", flush=True)
            self.skipTest("cmake not installed")
        for model in ("conv_autoenc", "transformer"):  # with products of transposed operands, and without
            with tempfile.TemporaryDirectory() as place:
                script = f"""
{METRONOME} export {model} net --name net --evaluate
cmake -S net -B net/build -DNET_OPTIMIZATION=-O1
cmake --build net/build
ctest --test-dir net/build --output-on-failure
"""
                done = subprocess.run(["bash", "-ec", script], capture_output=True, text=True, cwd=place)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertIn("100% tests passed, 0 tests failed out of 1", done.stdout)


if __name__ == "__main__":
    del sys.argv[1:]
    unittest.main()
