"""The promises of documents and comments: links that lead somewhere, a README and a DESIGN.md of few pages,
sentences that begin with their subject, and short ones in the pages of the design."""

import os.path
import re

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.M)
CODE = re.compile(r"^ *```.*?^ *```$", re.M | re.S)
# A sentence that begins with one of these has no subject of its own, or hides it.
INDIRECT = re.compile(r"(?:^|(?<=[.:;] ))(?:[-*] )?((?:What|Which|Of|Where)\b[^.\n]*)", re.M)

README_LINES, README_WIDTH = 120, 160
DESIGN_LINES, DESIGN_WIDTH = 200, 110
SENTENCE_WORDS = 30


def anchors(text):
    """Names of its headings in links."""
    words = (re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()) for heading in HEADING.findall(CODE.sub("", text)))
    return {heading.strip().replace(" ", "-") for heading in words}


def broken_links(file, root):
    """Relative links of a document to files, folders or headings that are not there."""
    broken = []
    for link in LINK.findall(CODE.sub("", file.read_text(encoding="utf-8"))):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (file.parent / path) if path else file
        if not target.exists() or os.path.relpath(target, root).startswith(".."):
            broken.append(link)
        elif anchor and anchor not in anchors(target.read_text(encoding="utf-8")):
            broken.append(link)
    return broken


def too_long(text, most_lines=README_LINES, width=README_WIDTH):
    """What a README, or another page of so many lines of so many characters, has too much of."""
    lines = text.splitlines()
    wide = [f"line {i + 1} has {len(line)} characters" for i, line in enumerate(lines) if len(line) > width]
    return wide + ([f"{len(lines)} lines"] if len(lines) > most_lines else [])


_END = re.compile(r"(?<!e\.g\.)(?<!i\.e\.)(?<!et al\.)(?<=[.!?])[)*\"”`]*\s+")
_POINT = re.compile(r"\s*(?:[-*]|\d+\.) ")
_ALONE = re.compile(r"\s*(?:#+ |\||$)")  # headings, rows of tables, blank lines


def words(text):
    return [word for word in text.split() if re.search(r"\w", word)]


def sentences(text):
    """Pairs (sentence, line of its paragraph) of a document: its paragraphs, points of lists and cells of tables."""
    text = CODE.sub(lambda code: "\n" * code.group().count("\n"), text)
    blocks, goes_on = [], False
    for number, line in enumerate(text.splitlines(), 1):
        alone = bool(_ALONE.match(line))
        if goes_on and not alone and not _POINT.match(line):
            blocks[-1][0] += " " + line
        else:
            blocks += [[cell, number] for cell in line.split("|")] if line.startswith("|") else [[line, number]]
        goes_on = not alone
    return [(sentence, number) for block, number in blocks for sentence in _END.split(block) if words(sentence)]


def long_sentences(text):
    """Sentences of more than SENTENCE_WORDS words."""
    counted = ((words(sentence), line) for sentence, line in sentences(text))
    return [
        f"line {line}: {len(said)} words, {' '.join(said[:5])} ..." for said, line in counted if len(said) > SENTENCE_WORDS
    ]


SNIPPET = re.compile(r"^```cpp\n(.*?)^```$", re.M | re.S)


def untried_snippets(text, sources):
    """The first lines of C++ snippets that stand in none of the sources line by line, indented alike."""
    untried = []
    for snippet in SNIPPET.findall(text):
        lines = [re.escape(line) for line in snippet.rstrip("\n").split("\n")]
        run = re.compile("^( *)" + lines[0] + "".join(rf"\n(?:\1{line})" if line else "\n" for line in lines[1:]) + "$", re.M)
        if not any(run.search(source) for source in sources):
            untried.append(snippet.split("\n")[0])
    return untried


def indirect_sentences(text):
    prose = "\n".join(line for line in CODE.sub("", text).splitlines() if not line.startswith("|"))
    return [sentence.strip() for sentence in INDIRECT.findall(prose)]


COMMENT = re.compile(r"\s*//+<? ?(.*)$")
AFTER_CODE = re.compile(r"""^[^"]*(?:"[^"]*"[^"]*)*?(?<!/)//+<? (.*)$""")  # not in a text


def comments(text):
    """Its comments, each as one line: neighbouring lines of nothing else are one comment."""
    whole = []
    for line in text.splitlines():
        own, behind = COMMENT.match(line), AFTER_CODE.search(line)
        if own and whole and whole[-1] is not None:
            whole[-1] += " " + own.group(1)
        elif own:
            whole.append(own.group(1))
        elif behind:
            whole += [None, behind.group(1), None]
        else:
            whole.append(None)
    return [comment for comment in whole if comment is not None]


def indirect_comments(text):
    return [sentence for comment in comments(text) for sentence in indirect_sentences(comment)]


def design_pages(root):
    return [root / "DESIGN.md", *sorted(root.glob("docs/design/*.md"))]


def documents(root):
    return [root / "README.md", *sorted(root.glob("docs/*.md")), *design_pages(root)]
