"""The promises of documents and comments: links that lead somewhere, a README of two pages, sentences
that begin with their subject."""

import os.path
import re

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.M)
CODE = re.compile(r"^ *```.*?^ *```$", re.M | re.S)
# A sentence that begins with one of these has no subject of its own, or hides it.
INDIRECT = re.compile(r"(?:^|(?<=[.:;] ))(?:[-*] )?((?:What|Which|Of|Where)\b[^.\n]*)", re.M)

README_LINES, README_WIDTH = 120, 160


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


def too_long(text):
    """What a README has too much of."""
    lines = text.splitlines()
    wide = [f"line {i + 1} has {len(line)} characters" for i, line in enumerate(lines) if len(line) > README_WIDTH]
    return wide + ([f"{len(lines)} lines"] if len(lines) > README_LINES else [])


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


def documents(root):
    return [root / "README.md", *sorted(root.glob("docs/*.md"))]
