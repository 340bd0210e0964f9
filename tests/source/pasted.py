"""Functions that were pasted: the same body in two files.

A helper of tests is written once, in a header of its folder; two copies drift apart, and a reader has
to compare them. What counts: a function of at least `LEAST_LINES` lines, its signature and its last
brace among them, whose body stands in another file too. Names, signatures, comments and white space
make no difference.
"""

import collections
import re

import one_definition

# A shorter one says less than the include and the name that would replace it.
LEAST_LINES = 5

_COMMENTS = re.compile(r"(\"(?:\\.|[^\"\\\n])*\")|//[^\n]*|/\*.*?\*/", re.DOTALL)
# A name, its parameters, and what may follow them: not a value such as `x = f() {`, nor an `if`.
_FUNCTION = re.compile(r"^(?!.*=\s*$)[^(=]*?(?P<name>~?[\w:]+|operator\S+)\s*\(.*\)[^()]*$", re.DOTALL)

Function = collections.namedtuple("Function", "name line lines body")


def functions(text):
    """The functions that a source defines, in the order of their ends."""
    code = one_definition.code_of(text)
    # What each open brace belongs to: "open" where functions may stand, "closed" where none may, or
    # the name and the begin of a function.
    braces = []
    begin = 0
    for match in re.finditer(r"[{};]", code):
        at = match.start()
        statement = code[begin:at]
        started = begin + len(statement) - len(statement.lstrip())
        statement = " ".join(statement.split())
        begin = match.end()
        if match.group() == "{":
            if any(brace != "open" for brace in braces):
                braces.append("closed")
            elif one_definition.opens_scope(statement):
                braces.append("open")
            elif function := _FUNCTION.match(statement):
                braces.append((function["name"], started, at))
            else:
                braces.append("closed")
        elif match.group() == "}" and braces:
            brace = braces.pop()
            if isinstance(brace, tuple):
                name, started, opened = brace
                lines = code.count("\n", started, at) + 1
                body = _COMMENTS.sub(lambda comment: comment[1] or "", text[opened + 1 : at])
                yield Function(name, code.count("\n", 0, started) + 1, lines, " ".join(body.split()))


def pasted(sources):
    """What is wrong in a dict from path to text."""
    places = collections.defaultdict(dict)
    for path, text in sorted(sources.items()):
        for function in functions(text):
            if function.lines >= LEAST_LINES and function.body:
                places[function.body].setdefault(path, f"{function.name} ({path}:{function.line})")
    return sorted(
        f"{' and '.join(where.values())} have one body: move it into a header that they include"
        for where in places.values()
        if len(where) > 1
    )
