"""Exported libraries repeat the steps of their executables bit by bit, built by CMake alone in an empty place.

    libraries_test.py EXPORT_MODELS DRIVE KIND MODEL...

KIND is plain, address (sanitizers of addresses and of what C++ leaves undefined) or aarch64 (run by qemu).
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

EXPORT_MODELS, DRIVE, KIND = (*map(lambda file: str(pathlib.Path(file).resolve()), sys.argv[1:3]), sys.argv[3])
MODELS = sys.argv[4:]
SANITIZERS = "-fsanitize=address,undefined -fno-sanitize-recover=undefined -g1"
ENVIRONMENT = {key: value for key, value in os.environ.items() if key not in ("CC", "CXX", "CFLAGS", "CXXFLAGS")}


def run(*command, **options):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=ENVIRONMENT, **options)
    assert done.returncode == 0, f"{' '.join(map(str, command))}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def missing():
    """Why this kind cannot run here; "" if it can."""
    tools = ["cmake", "gcc", "g++"]
    if KIND == "aarch64":
        tools += ["aarch64-linux-gnu-gcc", "aarch64-linux-gnu-g++", "qemu-aarch64-static"]
    absent = [tool for tool in tools if shutil.which(tool) is None]
    return f"{', '.join(absent)} not installed" if absent else ""


def build(model, library, place):
    """The program that takes the library's steps."""
    shutil.copytree(library, place / "net")
    if KIND == "address":  # also without a linker that leaves out what nothing calls
        lists = place / "net" / "CMakeLists.txt"
        lists.write_text(lists.read_text().replace("-Wl,--gc-sections", "-Wl,--no-gc-sections"))
    shutil.copy(DRIVE, place / "drive.c")
    flags = {"plain": "", "address": SANITIZERS, "aarch64": ""}[KIND]
    (place / "CMakeLists.txt").write_text(
        f"""cmake_minimum_required(VERSION 3.16)
project(drive C CXX)
set(CMAKE_C_FLAGS "{flags}")
set(CMAKE_CXX_FLAGS "{flags}")
add_subdirectory(net)
add_executable(drive drive.c)
set_target_properties(drive PROPERTIES C_STANDARD 99 C_EXTENSIONS OFF LINKER_LANGUAGE CXX)
target_compile_options(drive PRIVATE -Wall -Wextra -Wpedantic -Werror)
target_compile_definitions(drive PRIVATE DRIVES_{model.upper()})
target_link_libraries(drive PRIVATE net)
add_executable(check net/check.c)
target_link_libraries(check PRIVATE net)
set_target_properties(check PROPERTIES C_STANDARD 99 C_EXTENSIONS OFF LINKER_LANGUAGE CXX)
target_compile_options(check PRIVATE -Wall -Wextra -Wpedantic -Werror)
"""
    )
    cross = {
        "aarch64": [
            "-DCMAKE_SYSTEM_NAME=Linux",
            "-DCMAKE_SYSTEM_PROCESSOR=aarch64",
            "-DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc",
            "-DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++",
            "-DCMAKE_EXE_LINKER_FLAGS=-static",
        ]
    }.get(KIND, [])
    # Numbers are the same under each option; -O1 compiles in half the time of -O3.
    run("cmake", "-S", place, "-B", place / "build", "-DNET_OPTIMIZATION=-O1", *cross)
    run("cmake", "--build", place / "build")
    return place / "build" / "drive"


class Libraries(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if why := missing():
            print(f"skipped: exported libraries, {KIND} ({why})", flush=True)
            raise unittest.SkipTest(why)
        cls.folder = tempfile.TemporaryDirectory()
        if KIND == "aarch64":
            ENVIRONMENT["METRONOME_ISA"] = "portable"
        run(EXPORT_MODELS, cls.folder.name, "net", *MODELS)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()


def repeats(model):
    def test(self):
        made = pathlib.Path(self.folder.name) / model
        with tempfile.TemporaryDirectory() as place:
            program = build(model, made / "library", pathlib.Path(place))
            emulator = ["qemu-aarch64-static"] if KIND == "aarch64" else []
            self.assertRegex(run(*emulator, program, made / "steps", made / "checkpoint", place), r"\A\d\d+ arrays, 0 apart\n\Z")
            self.assertRegex(run(*emulator, program.parent / "check"), r"\Anet_check: \d\d+ arrays compared, 0 apart\n\Z")

    return test


class Pair(unittest.TestCase):
    """Two libraries in one program, each with the kernels that it keeps."""

    def test_each_repeats_its_steps(self):
        if why := missing():
            self.skipTest(why)
        names = {"alpha": MODELS[0], "beta": MODELS[1]}
        with tempfile.TemporaryDirectory() as folder:
            place = pathlib.Path(folder)
            lists = "cmake_minimum_required(VERSION 3.16)\nproject(pair C CXX)\n"
            for name, model in names.items():
                run(EXPORT_MODELS, place / name, name, model)
                shutil.copytree(place / name / model / "library", place / f"{name}_library")
                drive = pathlib.Path(DRIVE).read_text().replace("int main(", f"int drive_{name}(")
                drive = drive.replace("net_", f"{name}_").replace("NET_", f"{name.upper()}_").replace('"net.h"', f'"{name}.h"')
                (place / f"{name}.c").write_text(re.sub(r"\bnet\b", name, drive))
                lists += f'set({name.upper()}_OPTIMIZATION "-O1")\nadd_subdirectory({name}_library)\n'
            (place / "pair.c").write_text(
                "int drive_alpha(int argc, char** argv);\nint drive_beta(int argc, char** argv);\n"
                "int main(int argc, char** argv) {\n"
                "  char* other[] = {argv[0], argv[4], argv[5], argv[6]};\n"
                "  return argc != 7 ? 2 : drive_alpha(4, argv) + drive_beta(4, other);\n}\n"
            )
            lists += "add_executable(pair pair.c alpha.c beta.c)\ntarget_link_libraries(pair PRIVATE alpha beta)\n"
            lists += "set_target_properties(pair PROPERTIES LINKER_LANGUAGE CXX)\n"
            (place / "CMakeLists.txt").write_text(lists)
            run("cmake", "-S", place, "-B", place / "build")
            run("cmake", "--build", place / "build")
            arguments = [file for name, model in names.items() for file in (place / name / model / "steps", place / name / model / "checkpoint", place)]
            self.assertRegex(run(place / "build" / "pair", *arguments), r"\A(\d\d+ arrays, 0 apart\n){2}\Z")


if KIND != "plain":
    del Pair  # once is enough
for each in MODELS:
    setattr(Libraries, f"test_{each}", repeats(each))

if __name__ == "__main__":
    del sys.argv[1:]
    unittest.main()
