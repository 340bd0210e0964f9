"""Finds variables of the environment that are read and that docs/guide.md does not list, and the other way round.

Metronome's variables begin with METRONOME_. C++ reads one with getenv, or hands its name to a function that does so; Python
and Bazel's rules read `environ`, scripts `$NAME`. Whoever only sets a variable for another program does not read it.
"""

import re

NAME = r"(METRONOME_[A-Z0-9_]+)"
SECTION = "## Environment variables\n"

PRODUCT = re.compile(rf'(?<!setenv\()"{NAME}"')  # a text that is a name and nothing else
# Tests set variables by functions of their own, and name macros.
TESTS = re.compile(rf'\b(?:getenv|environment)\("{NAME}"')
PYTHON = re.compile(
    rf"""\benviron(?:\.\w+\(|\[)["']{NAME}["'](?!\]\s*=[^=])|["']{NAME}["'] (?:not )?in os\.environ\b"""
)
SHELL = re.compile(rf"\$(?:\{{[!#]?)?{NAME}")


def _pattern(file):
    if file.endswith((".cc", ".cu", ".h")):
        return TESTS if file.startswith("tests/") else PRODUCT
    return PYTHON if file.endswith((".py", ".bzl")) else SHELL


def read(file, text):
    """(name, line) of each place where a file reads a variable."""
    for found in _pattern(file).finditer(text):
        yield next(filter(None, found.groups())), text.count("\n", 0, found.start()) + 1


def listed(guide):
    """{name: line} of the guide's list: an item for each variable, which begins with its name."""
    begin = guide.index(SECTION)
    end = guide.find("\n## ", begin)
    items = re.finditer(rf"^- `{NAME}`", guide[: end if end > 0 else None], re.M)
    return {item.group(1): guide.count("\n", 0, item.start()) + 1 for item in items if item.start() > begin}


def mistakes(texts, guide, guide_name):
    """Lines that say which variables are not listed or not read, of {file: text} and the guide's text."""
    places = {}
    for file, text in sorted(texts.items()):
        for name, line in read(file, text):
            places.setdefault(name, f"{file}:{line}")
    names = listed(guide)
    unlisted = [f"{place} reads {name}, which {guide_name} does not list" for name, place in places.items() if name not in names]
    unread = [f"{guide_name}:{line} lists {name}, which nothing reads" for name, line in names.items() if name not in places]
    return sorted(unlisted + unread)
