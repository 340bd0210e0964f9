"""Finds words that stand for two things.

A type that a header defines is part of the project's language: no other type of the product has its name,
not even one that is internal to a file. A term of DESIGN.md's table is nowhere the name of two types.
Device code has a language of its own, as it sees no graph: what ops/kernel and *_kernels.h define may be
called like an op, and is compared with nothing.
"""

import collections
import re

import one_definition

# Users declare with one, passes read the other; DESIGN.md says so under "graph".
TWO_ON_PURPOSE = {"Graph"}


def terms(design):
    """The first column of the table under "Words": lower case, one row each."""
    section = design.split("## 2. Words\n", 1)[1].split("\n## ", 1)[0]
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", section, re.MULTILINE)
    return [term for term, _ in rows if term != "word"]


def named_files(text):
    """Sources that a document names with their folders, patterns left out."""
    return re.findall(r"(?<![\w<>*{}./-])((?:\w+/)+\w+\.(?:h|cc|cu))\b(?![\w{*<])", text)


def _is_device_code(file):
    return file.startswith("ops/kernel/") or file.endswith("_kernels.h")


def _types(text):
    """(name, line) of the types at namespace scope; specialisations and functions are none."""
    for name, line in one_definition.definitions(text, header=True, unnamed=True):
        name = name.rpartition("::")[2]
        if re.fullmatch(r"\w+", name):
            yield name, line


def second_meanings(texts, words):
    """Lines that say which names mean two types, of {file: text} and the terms."""
    places = collections.defaultdict(dict)
    for file, text in sorted(texts.items()):
        if not _is_device_code(file):
            for name, line in _types(text):
                places[name].setdefault(file, f"{file}:{line}")
    spelled = {"".join(word.capitalize() for word in term.split()): term for term in words}
    found = []
    for name, where in sorted(places.items()):
        if len(where) == 1 or name in TWO_ON_PURPOSE:
            continue
        if name in spelled:
            found.append(f"{name} is two types, and \"{spelled[name]}\" a term of DESIGN.md: {', '.join(where.values())}")
        elif any(file.endswith(".h") for file in where):
            found.append(f"{name} is two types, one of them a header's: {', '.join(where.values())}")
    return found
