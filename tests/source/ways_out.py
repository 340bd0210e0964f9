"""Finds the ways out that messages name, and those that no test follows.

A way out is what a message advises:
- the second text of a pair {what is required, way out}, in graph/ and ops/;
- what is assigned to a `way_out`, given for a parameter of that name, or made by a function `way_to...`;
- what stands behind "  way out    ";
- as other messages are one sentence, its part that begins with a verb of _ADVISES, behind a semicolon, a colon or
  ", or ", in executor/ at the beginning of a text, too.

A test follows it if a text of that test, but for the names of cases, holds it. What a format fills in may be
anything.
"""

import re

_ADVISES = "|".join(
    "add build call cast compile declare delete do feed give install keep leave let load make minimize move name "
    "pad reshape run set take train use".split()
)
_SENTENCE = re.compile(rf"(?:[;:] |\n|, or )((?:{_ADVISES}) (?!of ).*?)(?=; |\. [A-Z]|\n|$)")
_AT_FIRST = re.compile(rf"((?:{_ADVISES}) (?!of ).*?)(?=; |\. [A-Z]|\n|$)")
_MARKED = re.compile(r"  way out    (.*?)(?=\n|$)")
_TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)
      | R"(?P<fence>\w*)\((?P<raw>.*?)\)(?P=fence)"
      | "(?P<text>(?:[^"\\\n]|\\.)*)"
      | '(?:[^'\\\n]|\\.)+'
      | (?P<mark>[(){}\[\],;=?:+<])
      | (?P<word>\w+)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPES = {"n": "\n", "t": "\t"}
_HOLE = re.compile(r"\{[^{}\s]{0,12}\}")


def tokens(text):
    """(kind, text, line) of a source: "text" for literals, neighbours joined; "mark"; "word"."""
    found = []
    for match in _TOKEN.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        if match["comment"] is not None:
            continue
        if match["raw"] is None and match["text"] is None:
            found.append(("mark" if match["mark"] else "word", match[0], line))
            continue
        said = match["raw"]
        if said is None:
            said = re.sub(r"\\(.)", lambda escaped: _ESCAPES.get(escaped[1], escaped[1]), match["text"])
        if found and found[-1][0] == "text":
            found[-1] = ("text", found[-1][1] + said, found[-1][2])
        else:
            found.append(("text", said, line))
    return found


def _lists(all_tokens):
    """(word before, opening mark, elements) of each list in brackets; an element is its tokens."""
    open_ones = []
    for i, token in enumerate(all_tokens):
        kind, text, _ = token
        if kind == "mark" and text in "({[":
            before = all_tokens[i - 1][1] if i and all_tokens[i - 1][0] == "word" else ""
            open_ones.append((before, text, [[]]))
        elif kind == "mark" and text in ")}]" and open_ones:
            closed = open_ones.pop()
            yield closed
            if open_ones:
                inner = [token for element in closed[2] for token in element]
                open_ones[-1][2][-1] += [("mark", closed[1], 0), *inner, token]
        elif kind == "mark" and text == "," and open_ones:
            open_ones[-1][2].append([])
        elif open_ones:
            open_ones[-1][2][-1].append(token)


def _said(some):
    """(text, line) of the tokens that are sentences or code: not names of element types, nor separators."""
    return [(text, line) for kind, text, line in some if kind == "text" and (" " in text.strip() or "(" in text)]


def _is_pair(mark, elements):
    """True for {"what is required", "way out"}, with or without formats and conditions."""
    marks = {text for element in elements for kind, text, _ in element if kind == "mark"}
    said = any(kind == "text" for kind, _, _ in elements[0])
    return mark == "{" and len(elements) == 2 and said and not marks & {"{", ";"}


def _parameters_called_way_out(all_tokens):
    """(function, number of parameters) of functions whose last parameter is a `way_out`."""
    for before, mark, elements in _lists(all_tokens):
        if mark == "(" and before and ("word", "way_out") in [token[:2] for token in elements[-1]]:
            if elements[-1][0][1] == "std":  # declared, not called with
                yield before, len(elements)


def _until_closed(some, ends=()):
    """The tokens before the bracket that closes what they stand in, or one of `ends`."""
    depth = 0
    for i, (kind, text, _) in enumerate(some):
        if kind == "mark":
            depth += (text in "({[") - (text in ")}]")
            if depth < 0 or text in ends:
                return some[:i]
    return some


def ways_out(text, room):
    """(way out, line) of a source of the folder `room`, each once."""
    all_tokens = tokens(text)
    found = {}
    if room != "executor":
        taking = set(_parameters_called_way_out(all_tokens))
        for before, mark, elements in _lists(all_tokens):
            if _is_pair(mark, elements) or (mark == "(" and (before, len(elements)) in taking):
                found.update(_said(elements[-1]))
    for i, (kind, text_, line) in enumerate(all_tokens):
        if (kind, text_) == ("word", "way_out") and all_tokens[i + 1][1] == "=":
            found.update(_said(_until_closed(all_tokens[i:], ";")))
        if kind == "word" and text_.startswith("way_to") and all_tokens[i + 1][1] == "(":
            after = i + 2 + len(_until_closed(all_tokens[i + 2 :])) + 1
            if all_tokens[after][1] == "{":
                found.update(_said(_until_closed(all_tokens[after + 1 :])))
    for kind, text_, line in all_tokens:
        if kind != "text":
            continue
        marked = _MARKED.findall(text_)
        found.update((way, line) for way in marked if _said([("text", way, line)]) and way != "{}")
        if not marked and text_ not in found:
            at_first = _AT_FIRST.findall(text_) if room == "executor" and _AT_FIRST.match(text_) else []
            found.update((way, line) for way in _SENTENCE.findall(text_) + at_first[:1])
    return list(found.items())


def _pattern(way_out):
    """Matches a way out in another text, whatever its holes are filled with."""
    parts = _HOLE.split(way_out)
    return re.compile(".*?".join(re.escape(part.replace("{{", "{").replace("}}", "}")) for part in parts))


def _texts(test):
    """The texts of a test, as they are written and as a format prints them; names of cases are none."""
    all_tokens = tokens(test)
    for i, (kind, said, _) in enumerate(all_tokens):
        if kind == "text" and (i < 2 or all_tokens[i - 2][1] not in ("TEST_CASE", "SUBCASE")):
            yield said
            yield said.replace("{{", "{").replace("}}", "}")


def not_followed(sources, tests):
    """(file, line, way out) of the sources, {file: text}, that no text of the tests, {file: text}, holds."""
    said = "\n".join(said for test in tests.values() for said in _texts(test))
    return [
        (file, line, way_out)
        for file, text in sorted(sources.items())
        for way_out, line in ways_out(text, file.split("/")[0])
        if not _pattern(way_out).search(said)
    ]
