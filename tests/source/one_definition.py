"""Finds classes that a namespace holds twice, and constants that hide a header's.

Two classes of one name in one namespace are one class to the linker: it keeps one of the weak
functions that both make, such as std::vector<T>::push_back, and the other class's memory is then
read by the wrong layout. Compilers see one file at a time and say nothing.

What counts: class, struct, union and enum definitions at namespace scope of any file, and inline
functions and function templates of a .cc or .cu file, that two files hold. (Within one file it is
a compile error, or two branches of an #if.) What is internal to a file stands in an unnamed
namespace and never counts.

A constant in an unnamed namespace hides the one of the same name that a header defines around it,
also from the files that are compiled behind it as one source (third_party/unity.bzl).
"""

import collections
import re
import sys

# Comments, text and character literals: nothing in them is code.
_BLANKS = re.compile(
    r"//[^\n]*|/\*.*?\*/|R\"(?P<tag>[^(\s]*)\(.*?\)(?P=tag)\"|\"(?:\\.|[^\"\\\n])*\"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'",
    re.DOTALL,
)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.)*(?:\\\n(?:[^\n\\]|\\.)*)*", re.MULTILINE | re.DOTALL)
# A macro's call that stands alone, in capitals and without a semicolon: no words of what follows it.
_CALL = re.compile(
    r"^[A-Z][A-Z0-9]*_[A-Z0-9_]*\((?:[^(){};]|\((?:[^(){};]|\([^(){};]*\))*\))*\)(?=\s*[\w\[])",
    re.MULTILINE,
)
_NAMESPACE = re.compile(r"^(?:inline )?namespace\b\s*(?P<name>[\w:\s]*)$")
_ALIGNAS = r"alignas\((?:[^()]|\([^()]*\))*\)"
_TYPE = re.compile(
    r"(?:^|\s)(?:class|struct|union|enum(?:\s+(?:class|struct))?)\s+"
    rf"(?:{_ALIGNAS}\s*|\[\[.*?\]\]\s*|__attribute__\(\(.*?\)\)\s*)*"
    r"(?P<name>[A-Za-z_]\w*(?:<[^{}]*>)?)\s*(?:final\s*)?(?::(?!:).*)?$",
    re.DOTALL,
)
_FUNCTION = re.compile(r"(?P<name>~?[A-Za-z_]\w*)\s*\((?P<parameters>.*)\)[^()]*$", re.DOTALL)


def _blank(match):
    return re.sub(r"[^\n]", " ", match.group(0))


def code_of(text):
    """The text with spaces for what is no code, macros' calls among it: each character of code stays where it is."""
    return _CALL.sub(_blank, _DIRECTIVE.sub(_blank, _BLANKS.sub(_blank, text)))


def opens_scope(statement):
    """Whether the brace after these words is that of a namespace or of a type."""
    return bool(_NAMESPACE.match(statement) or type_of(statement))


def _at_namespace_scope(text):
    """Yields (namespaces, statement, its end: a brace or a semicolon, line) outside of types and functions.

    Namespaces have an entry for each open brace: a name, "" for an unnamed one."""
    text = code_of(text)
    scopes = []  # None for what is no namespace
    begin = 0
    for match in re.finditer(r"[{};]", text):
        at = match.start()
        statement = " ".join(text[begin:at].split())
        begin = match.end()
        if match.group() == "}":
            if scopes:
                scopes.pop()
            continue
        namespace = match.group() == "{" and _NAMESPACE.match(statement)
        if not namespace and None not in scopes:
            yield tuple(scopes), statement, match.group(), text.count("\n", 0, at) + 1
        if match.group() == "{":
            scopes.append(namespace.group("name").replace(" ", "") if namespace else None)


def definitions(text, header, unnamed=False):
    """Pairs (qualified name, line) of what the text defines at namespace scope, in unnamed ones on request."""
    found = []
    for scopes, statement, end, line in _at_namespace_scope(text):
        name = _defined(statement, header) if end == "{" and (unnamed or "" not in scopes) else None
        if name:
            found.append(("::".join([*scopes, name]), line))
    return found


def type_of(statement):
    """The name of the type that the words before a brace define, or None."""
    plain = re.sub(r"^template\s*<.*?>\s*(?=(?:class|struct|union)\b)", "", statement)
    kind = _TYPE.search(plain)
    if kind and "(" not in re.sub(_ALIGNAS, "", plain[: kind.start("name")]) and "=" not in plain:
        return kind.group("name")
    return None


def _defined(statement, header):
    if name := type_of(statement):
        return name
    if header or not re.match(r"(?:template\b|inline\b|constexpr\b)", statement):
        return None
    if re.search(r"\bstatic\b", statement):
        return None
    function = _FUNCTION.search(statement)
    return f"{function.group('name')}({function.group('parameters')})" if function else None


def duplicates(texts):
    """Lines that say which names stand twice, of {file: text}."""
    places = collections.defaultdict(dict)
    for file, text in sorted(texts.items()):
        for name, line in definitions(text, header=file.endswith(".h")):
            places[name].setdefault(file, f"{file}:{line}")
    return [
        f"{name} is defined twice: {', '.join(where.values())}; rename one, or put what is internal to a "
        "file into an unnamed namespace"
        for name, where in sorted(places.items())
        if len(where) > 1
    ]


_CONSTANT = re.compile(r"\b(?:constexpr|const)\b[^()=]*?\b(?P<name>k[A-Z]\w*)\s*(?:=|\[|$)")


def constants(text):
    """Triples (namespaces, name, line) of the constants at namespace scope; an unnamed one is ""."""
    found = []
    for scopes, statement, _, line in _at_namespace_scope(text):
        constant = _CONSTANT.search(statement)
        if constant and "(" not in statement[: constant.start("name")]:
            names = tuple(name for scope in scopes for name in scope.split("::"))
            found.append((names, constant.group("name"), line))
    return found


def hidden(texts):
    """Lines that say which constants of a .cc hide a header's, of {file: text}."""
    places = {}
    for file, text in texts.items():
        if file.endswith(".h"):
            for scopes, name, line in constants(text):
                places.setdefault(name, []).append((scopes, f"{file}:{line}"))
    found = []
    for file, text in sorted(texts.items()):
        for scopes, name, line in constants(text) if file.endswith(".cc") else []:
            if "" not in scopes:
                continue
            around = scopes[: scopes.index("")]
            for of_header, where in places.get(name, []):
                if around[: len(of_header)] == of_header:
                    found.append(f"{file}:{line}: {name} hides that of {where}; rename it")
    return found


def main(files):
    texts = {}
    for file in files:
        with open(file, encoding="utf-8") as source:
            texts[file] = source.read()
    found = duplicates(texts) + hidden(texts)
    print("\n".join(found) or f"{len(files)} files, no name twice")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
