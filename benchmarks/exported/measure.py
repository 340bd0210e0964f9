"""Sizes and times of exported libraries: `python3 benchmarks/exported/measure.py` after `bazel build //benchmarks:metronome`.

Each model is exported twice, with its training step and for evaluation alone, built by CMake as it is written, and
linked into a program of C that feeds zeros. Bytes are those of the program, stripped, less the library's parameters and
other numbers that it begins with; the standard library of C++ is shared. A start is from exec to the end of a program
that makes one evaluation. Steps are medians of nine rounds.
"""

import argparse
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
METRONOME = ROOT / "bazel-bin/benchmarks/metronome"
MODELS = ["digits", "sac", "gated_routing", "gru_seq", "transformer"]
STARTS = 51

PROGRAM = """#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "net.h"

static double seconds(void) {{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}}

static int compare(const void* a, const void* b) {{
  return *(const double*)a < *(const double*)b ? -1 : 1;
}}

static void measure(const char* what, int (*step)(net*), net* of) {{
  double rounds[9];
  for (int r = 0; r < 9; ++r) {{
    const double begin = seconds();
    int steps = 0;
    do {{
      if (step(of) != 0) exit(1);
      ++steps;
    }} while (seconds() - begin < 0.05);
    rounds[r] = (seconds() - begin) / steps;
  }}
  qsort(rounds, 9, sizeof *rounds, compare);
  printf("%s %.9f\\n", what, rounds[4]);
}}

int main(int argc, char** argv) {{
  net* of;
  (void)argv;
  if (net_create(&of, NULL, 0) != 0) return 1;
{feeds}
  if (net_evaluate(of) != 0) return 1;
  if (argc == 1) return 0;
  measure("evaluate", net_evaluate, of);
{train}  return 0;
}}
"""


def run(*command, **options):
    return subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True, **options).stdout


def start_of(program):
    """Milliseconds from exec to its end, in the median."""
    times = []
    for _ in range(STARTS):
        begin = time.perf_counter()
        subprocess.run(program, check=True, stdout=subprocess.DEVNULL)
        times.append(1e3 * (time.perf_counter() - begin))
    return statistics.median(times)


def export(model, trains, library, metronome=METRONOME):
    run(metronome, "export", model, library, "--name", "net", *([] if trains else ["--evaluate"]))


def build(library, trains, place, optimization="-O3", flags=""):
    """A program that feeds zeros to a library "net" and times its steps."""
    inputs = re.findall(r"(NET_INPUT_\w+),\s+/\* .*?(\d+) bytes? \*/", (library / "net.h").read_text())
    feeds = "".join(f"  if (net_feed(of, {name}, calloc({size}, 1), {size}) != 0) return 1;\n" for name, size in inputs)
    train = '  measure("train", net_train, of);\n' if trains else ""
    (place / "main.c").write_text(PROGRAM.format(feeds=feeds, train=train))
    (place / "CMakeLists.txt").write_text(
        f"cmake_minimum_required(VERSION 3.16)\nproject(measure C CXX)\nadd_subdirectory({library} net)\n"
        "add_executable(measure main.c)\ntarget_link_libraries(measure PRIVATE net)\n"
        "set_target_properties(measure PROPERTIES LINKER_LANGUAGE CXX)\n"
    )
    run("cmake", "-S", place, "-B", place / "build", f"-DNET_OPTIMIZATION={optimization}", f"-DCMAKE_CXX_FLAGS={flags}")
    run("cmake", "--build", place / "build", "-j2")
    return place / "build" / "measure"


def numbers_of(library):
    """Bytes of the parameters and other numbers that a library begins with."""
    arrays = re.findall(r"std::uint64_t k(?:Exported|Initial)\d+\[\] = \{(.*?)\}", (library / "net.cc").read_text(), re.S)
    return sum(8 * len(words.split(",")) for words in arrays)


def steps_of(program):
    """Seconds of its steps, by name."""
    return {name: float(seconds) for name, seconds in (line.split() for line in run(program, "measure").splitlines())}


def processor():
    return next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.machine())


def empty_start(place):
    (place / "empty.cc").write_text("int main() {}\n")
    run("g++", "-O2", place / "empty.cc", "-o", place / "empty")
    return start_of(place / "empty")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--metronome", default=METRONOME, help="the program that exports")
    parser.add_argument("--optimization", default="-O3", help="the compiler's, for the kernels")
    arguments = parser.parse_args()
    print(f"{processor()}; one thread; a program without anything starts and ends in ", end="")
    with tempfile.TemporaryDirectory() as folder:
        print(f"{empty_start(pathlib.Path(folder)):.1f} ms")
    print(f"{'':24}{'kB':>8}{'numbers kB':>12}{'start ms':>10}{'evaluate us':>13}{'train us':>10}")
    for model in arguments.models:
        for trains in (False, True):
            with tempfile.TemporaryDirectory() as folder:
                place = pathlib.Path(folder)
                export(model, trains, place / "net", arguments.metronome)
                program = build(place / "net", trains, place, arguments.optimization)
                run("strip", program)
                numbers = numbers_of(place / "net")
                size = program.stat().st_size - numbers
                start, steps = start_of(program), steps_of(program)
            name = model + ("" if trains else ", evaluation")
            train = f"{1e6 * steps['train']:10.1f}" if trains else ""
            print(f"{name:24}{size / 1e3:8.0f}{numbers / 1e3:12.1f}{start:10.2f}{1e6 * steps['evaluate']:13.1f}{train}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
