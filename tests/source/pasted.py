"""Code that was pasted: the same body in two files, or one shell around two names.

A helper of tests is written once, in a header of its folder; two copies drift apart, and a reader has
to compare them. What counts: a function of at least `LEAST_LINES` lines, its signature and its last
brace among them, whose body stands in another file too. Names, signatures, comments and white space
make no difference.

Two functions or two types, of one file or of two, are one shell if their bodies differ in nothing but
`MOST_DIFFERENCES` names and texts, or fewer: one template would do, or one function of what differs.
Its own name in a body makes no difference. What counts: a function of `LEAST_SHELL_LINES` from brace to
brace; a type whose functions have so many together. A type that only declares has none, as most ops;
and test cases are pictures, which may be alike.
"""

import collections
import re

import one_definition

# A shorter one says less than the include and the name that would replace it.
LEAST_LINES = 5
# A type's functions are a shell even if each makes one call: of three lines, and two such are enough. Of
# shorter functions the tree has pairs that a template would not make shorter: the `bind` of a cumsum and
# of a sum, whose messages differ, or a call that is tried, for two types of errors.
LEAST_SHELL_LINES = {"type": 6, "function": 9}
MOST_DIFFERENCES = 2

_COMMENTS = re.compile(r"(\"(?:\\.|[^\"\\\n])*\")|//[^\n]*|/\*.*?\*/", re.DOTALL)
# A name, its parameters, and what may follow them: not a value such as `x = f() {`, nor an `if`.
FUNCTION = re.compile(r"^(?!.*=\s*$)[^(=]*?(?P<name>~?[\w:]+|operator\S+)\s*\(.*\)[^()]*$", re.DOTALL)

_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|[A-Za-z_]\w*|\S')

# `lines` are those of its signature and its braces, `inner` those from brace to brace, and of a type those
# of its functions.
Definition = collections.namedtuple("Definition", "kind name line lines inner body")


class _Brace:
    """An open brace: of a "function", a "type" or a "scope"; or a "closed" one, where no functions stand."""

    def __init__(self, statement, started, opened, around):
        self.kind, self.name, self.started, self.opened, self.inner = "closed", "", started, opened, 0
        if any(brace.kind in ("closed", "function") for brace in around):
            return
        if name := one_definition.type_of(statement):
            self.kind, self.name = "type", name
        elif one_definition.opens_scope(statement):
            self.kind = "scope"
        elif function := FUNCTION.match(statement):
            self.kind, self.name = "function", function["name"]


def definitions(text):
    """The functions and types that a source defines, in the order of their ends."""
    code = one_definition.code_of(text)
    braces = []
    begin = 0
    for match in re.finditer(r"[{};]", code):
        at = match.start()
        statement = code[begin:at]
        started = begin + len(statement) - len(statement.lstrip())
        begin = match.end()
        if match.group() == "{":
            braces.append(_Brace(" ".join(statement.split()), started, at, braces))
        elif match.group() == "}" and braces:
            brace = braces.pop()
            if brace.kind == "function":
                brace.inner = code.count("\n", brace.opened, at) + 1
            if braces:
                braces[-1].inner += brace.inner
            if brace.kind in ("function", "type"):
                body = _COMMENTS.sub(lambda comment: comment[1] or "", text[brace.opened + 1 : at])
                line = code.count("\n", 0, brace.started) + 1
                lines = code.count("\n", brace.started, at) + 1
                yield Definition(brace.kind, brace.name, line, lines, brace.inner, " ".join(body.split()))


def functions(text):
    """The functions that a source defines, in the order of their ends."""
    return (definition for definition in definitions(text) if definition.kind == "function")


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


def _tokens(definition):
    """The body's names, texts and signs, with "@" for its own name."""
    own = definition.name.split("::")[-1].split("<")[0].lstrip("~")
    return ["@" if token == own else token for token in _TOKEN.findall(definition.body)]


def _sort(token):
    """The sort of a token that may differ, name or text; another token is itself."""
    return '"' if token[0] == '"' else "a" if token[0] == "_" or token[0].isalpha() else token


def shells(sources):
    """The shells that stand twice in a dict from path to text."""
    alike = collections.defaultdict(list)
    for path, text in sorted(sources.items()):
        for each in definitions(text):
            if each.inner >= LEAST_SHELL_LINES[each.kind] and not each.name.startswith("TEST_CASE"):
                tokens = _tokens(each)
                alike[tuple(map(_sort, tokens))].append((f"{each.name} ({path}:{each.line})", tokens))
    found = []
    for group in alike.values():
        for k, (place, tokens) in enumerate(group):
            for first, others in group[:k]:
                differ = sorted({pair for pair in zip(others, tokens) if pair[0] != pair[1]})
                if len(differ) <= MOST_DIFFERENCES:
                    names = ", ".join(f"{one} / {other}" for one, other in differ)
                    found.append(f"{first} and {place} differ in nothing{' but ' * bool(differ)}{names}: make them one")
                    break
    return sorted(found)
