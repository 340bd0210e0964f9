"""How the tree is ordered, as a table: what lies too thick in one place, and what is named by a participle.

    python3 tests/source/survey.py              this work tree
    python3 tests/source/survey.py A            a commit
    python3 tests/source/survey.py A B          two commits side by side
    python3 tests/source/survey.py --names A    and below the table the names that are participles

The product is graph, ops, executor, distributed and models. Blank lines of files count for nothing.
"""

import argparse
import collections
import io
import pathlib
import re
import subprocess
import tarfile

import documents
import one_definition
import pasted

PRODUCT = ("graph", "ops", "executor", "distributed", "models")
TREE = (*PRODUCT, "benchmarks", "tests", "example")
SOURCES = re.compile(r"(?:" + "|".join(TREE) + r")/.*\.(?:h|cc|cu)")
DESIGN = re.compile(r"DESIGN\.md|docs/design/[^/]+\.md")

# Participles that end in neither "ed" nor "ing". Those that are nouns or verbs too are left out: bound, cut,
# left, put, read, run, set, split.
IRREGULAR = set(
    "begun bent broken brought built caught chosen done drawn driven fallen felt forgotten found given gone "
    "got grown heard held hidden kept known laid lent lost made meant met paid said seen sent shown sought "
    "spent stood stuck swept taken taught thrown told torn understood undone woken worn written".split()
)
# Nouns and verbs that end alike, and words of the field.
NOUNS = set(
    "binding bring embed embedding encoding exceed feed indexing need nothing padding pooling proceed ring "
    "seed setting speed string training warning".split()
)


def is_participle(word):
    word = word.lower()
    return word in IRREGULAR or (word.endswith(("ed", "ing")) and word not in NOUNS)


def last_word(name):
    """"Node" of PassedNode, and "Int" of BigInt64."""
    return (re.findall(r"[A-Z]+[a-z]*|[a-z]+", name) or [""])[-1]


class Class:
    """A class or struct: how many data members and virtual functions it declares itself."""

    def __init__(self, name, line):
        self.name, self.line, self.members, self.virtuals = name, line, 0, 0


Contents = collections.namedtuple("Contents", "classes types functions")

_ACCESS = re.compile(r"^(?:(?:public|private|protected)\s*:(?!:)\s*)+")
_NO_MEMBER = re.compile(r"(?:using|typedef|friend|static|static_assert|template|enum|class|struct|union)\b")
# Such as Executable::Impl, which the header of Executable declares.
_NESTED = re.compile(r"(?:template\s*<.*>\s*)?(?:class|struct)\s+((?:\w+::)+\w+)\s*(?:final\s*)?(?::(?!:).*)?$")
_ALIAS = re.compile(r"(?:template\s*<.*>\s*)?using\s+(\w+)\s*=")


def _without(pattern, text):
    """The text without what the pattern finds, inside out."""
    while (shorter := re.sub(pattern, "", text)) != text:
        text = shorter
    return text


def type_name(statement):
    """The name of the type that the words before a brace define, without arguments of a template, or None."""
    nested = _NESTED.match(statement)
    name = nested.group(1) if nested else one_definition.type_of(statement)
    return name and name.partition("<")[0]


def is_function(statement):
    """Whether a declaration, of one line and without arguments of templates, is a function's."""
    head = re.sub(r"\b(?:alignas|decltype)\s*\([^()]*\)", "", statement).partition("=")[0]
    return "operator" in head or ("(" in head and not re.search(r"\(\s*[*&]", head))


def data_members(statement):
    """How many data members a declaration in a class declares, of one line and without its semicolon."""
    plain = _without(r"<[^<>]*>", statement)
    if not plain or _NO_MEMBER.match(plain) or is_function(plain):
        return 0
    return _without(r"\([^()]*\)", plain).count(",") + 1


def contents(text):
    """The classes, the names of all types and those of all functions that a source declares outside of
    functions."""
    found = Contents([], [], [])
    code = one_definition.code_of(text)
    scopes = []  # of each open brace: a Class, "open" where declarations stand, "value", "closed"
    begin, earlier = 0, ""  # of the statement; its words before the last braced value
    for match in re.finditer(r"[{};]", code):
        at, mark = match.start(), match.group()
        if scopes and scopes[-1] in ("value", "closed"):
            if mark == "{":
                scopes.append("closed")
            elif mark == "}":
                scopes.pop()
                begin = match.end()
            continue
        statement = _ACCESS.sub("", " ".join((earlier + code[begin:at]).split()))
        begin, earlier = match.end(), ""
        if mark == "}":
            if scopes:
                scopes.pop()
            continue
        function = pasted.FUNCTION.match(statement)
        of = scopes[-1] if scopes and isinstance(scopes[-1], Class) else None
        if of and (mark == ";" or function) and re.match(r"virtual\b(?!.*~)", statement):
            of.virtuals += 1
        if mark == ";":
            if alias := _ALIAS.match(statement):
                found.types.append(alias.group(1))
            elif function and is_function(_without(r"<[^<>]*>", statement)):
                found.functions.append(function["name"].rpartition("::")[2])
            elif of:
                of.members += data_members(statement)
        elif name := type_name(statement):
            found.types.append(name.rpartition("::")[2])
            if statement.startswith("enum"):
                scopes.append("closed")
            else:
                scopes.append(Class(name, code.count("\n", 0, at) + 1))
                found.classes.append(scopes[-1])
        elif one_definition.opens_scope(statement):
            scopes.append("open")
        elif function:
            found.functions.append(function["name"].rpartition("::")[2])
            scopes.append("closed")
        else:
            earlier = statement + " "
            scopes.append("value")
    return found


def count_lines(text):
    """The number of lines that are not blank."""
    return sum(1 for line in text.splitlines() if line.strip())


def largest(pairs):
    """Of pairs (number, name) "7 (b, c)": the largest number, and the names that have it."""
    pairs = list(pairs)
    most = max((number for number, _ in pairs), default=0)
    names = sorted({name for number, name in pairs if number == most})
    return f"{most:,} ({', '.join(names[:3])}{' and others' if names[3:] else ''})" if names else "none"


def participles(kind, found):
    """Triples (name, file without its ending, file) of the types or functions that a participle names."""
    named = {}
    for path, has in found.items():
        for name in getattr(has, kind):
            word = last_word(name) if kind == "types" else name
            if re.fullmatch("[A-Z]?[a-z]+" if kind == "types" else "[a-z]+", word) and is_participle(word):
                named.setdefault((name, path.rpartition(".")[0]), path)
    return sorted((name, stem, path) for (name, stem), path in named.items())


def say_count(named):
    """"7 (5 names)": of how many modules, and how many names they share."""
    return f"{len(named):,} ({len({name for name, _, _ in named}):,} names)"


def survey(texts):
    """Pairs (what is counted, its number as text) of {path: text}; and the participles, by what they name."""
    sources = {path: text for path, text in texts.items() if SOURCES.fullmatch(path)}
    product = {path: text for path, text in sources.items() if path.split("/")[0] in PRODUCT}
    tests = [text for path, text in sources.items() if path.startswith("tests/")]
    design = {path: text for path, text in texts.items() if DESIGN.fullmatch(path)}

    found = {path: contents(text) for path, text in sorted(product.items())}
    classes = [(path, each) for path, has in found.items() for each in has.classes]
    virtuals = sum(each.virtuals for path, each in classes if each.name == "Op" and path.startswith("graph/"))
    members = largest((each.members, f"{each.name}, {path}:{each.line}") for path, each in classes)
    named = {kind: participles(kind, found) for kind in ("types", "functions")}
    functions = ((f.lines, f"{f.name}, {path}:{f.line}") for path, text in product.items() for f in pasted.functions(text))

    said = (
        (len(documents.words(one)), f"{path}:{line}")
        for path, text in design.items()
        for one, line in documents.sentences(text)
    )
    rooms = collections.Counter(path.rpartition("/")[0] for path in sources)
    comments = sum(line.lstrip().startswith("//") for text in product.values() for line in text.splitlines())
    rows = [
        ("virtual functions of `Op`", f"{virtuals}"),
        ("types whose last word is a participle", say_count(named["types"])),
        ("functions that a participle alone names", say_count(named["functions"])),
        ("words of DESIGN.md and docs/design", f"{sum(len(documents.words(text)) for text in design.values()):,}"),
        ("words of the longest sentence there", largest(said)),
        ("data members of the largest class", members),
        ("files of the largest room", largest((number, room) for room, number in rooms.items())),
        ("comment lines of the product", f"{comments:,}"),
        ("lines of the product", f"{sum(map(count_lines, product.values())):,}"),
        ("lines of tests", f"{sum(map(count_lines, tests)):,}"),
        ("lines of the product's longest file", largest((count_lines(text), path) for path, text in product.items())),
        ("lines of the product's longest function", largest(functions)),
    ]
    return rows, named


def is_read(path):
    return bool(SOURCES.fullmatch(path) or DESIGN.fullmatch(path))


def read_work_tree(root):
    """{path: text} of the sources and documents in a folder."""
    files = [file for top in (*TREE, "docs/design") for file in (root / top).rglob("*")] + [root / "DESIGN.md"]
    paths = {str(file.relative_to(root)): file for file in files if file.is_file()}
    return {path: file.read_text(encoding="utf-8") for path, file in paths.items() if is_read(path)}


def read_commit(root, commit):
    """{path: text} of the sources and documents of a commit of the repository in a folder."""
    packed = subprocess.run(["git", "-C", root, "archive", "--format=tar", commit], check=True, stdout=subprocess.PIPE).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        files = [file for file in archive if file.isfile() and is_read(file.name)]
        return {file.name: archive.extractfile(file).read().decode("utf-8") for file in files}


def table(heads, columns):
    """Markdown of columns of pairs (what, number), which have equal first halves."""
    lines = ["| | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
    for cells in zip(*columns):
        lines.append(f"| {cells[0][0]} | " + " | ".join(number for _, number in cells) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description="How the tree is ordered, as a table.")
    parser.add_argument("commits", nargs="*", metavar="COMMIT", help="none: the work tree")
    parser.add_argument("--names", action="store_true", help="print the participles, too")
    options = parser.parse_args()
    root = pathlib.Path(__file__).resolve().parents[2]
    surveys = {commit: survey(read_commit(root, commit)) for commit in options.commits}
    surveys = surveys or {"work tree": survey(read_work_tree(root))}
    print(table(surveys, [rows for rows, _ in surveys.values()]))
    if options.names:
        for head, (_, named) in surveys.items():
            for kind, triples in named.items():
                print(f"\n{head}, {kind}:", *(f"{name} ({path})" for name, _, path in triples), sep="\n  ")


if __name__ == "__main__":
    main()
