"""docs/names.md: every name that a model is written with, from the comments of the public headers.

    python3 tests/source/names.py    writes the page anew
"""

import re
from pathlib import Path

PAGE = Path("docs/names.md")
FRONT = Path("executor/metronome.h")
HEAD = """# All names

These are the functions, layers, losses, optimizers and their options, with what the headers say of them. Tensors are named by their shapes:
`[batch, 8]`. The page is made from the headers: `python3 tests/source/names.py` writes it anew after a change there.
[reference.md](reference.md) groups the most used names, and links their tests.
"""

SKIPPED = ("require_", "initialise")  # they are no words of a model
ALSO = ("ops/optimizers/schedules.h",)  # which optimizers.h includes


def headers(front):
    """Those that the front door includes and a model is written with."""
    return re.findall(r'^#include "(ops/(?:expr|language|layers|losses|optimizers)/\S+)"', front, re.M) + list(ALSO)


def statements(text):
    """Each declaration as (prefix, comment, code, whether the comment is its own), in order: the prefix is that of
    a namespace inside. A declaration that follows another one at once shares its comment."""
    text = text[text.index("\nnamespace metronome {") :]
    found, comment, code, depth, prefix, fresh = [], [], "", 0, "", True
    for line in text.split("\n")[2:]:
        stripped = line.strip()
        if depth == 0 and not code and (not stripped or stripped.startswith("// ")):
            comment, fresh = [], True
            continue
        if depth == 0 and not code and stripped.startswith("///"):
            if not fresh:
                comment = []
            comment.append(stripped[3:].strip())
            fresh = True
            continue
        own = fresh if not code else own
        fresh = False
        code += line + "\n"
        bare = re.sub(r"//.*", "", line)
        depth += bare.count("{") - bare.count("}")
        if inside := re.match(r"namespace (\w+) \{|\}  // namespace", code):
            prefix = f"{inside.group(1)}::" if inside.group(1) else ""
            comment, code, depth, fresh = [], "", 0, True
            continue
        if depth == 0 and re.search(r"[;}]$", re.sub(r"\s*//.*", "", line).rstrip()):
            found.append((prefix, " ".join(" ".join(comment).split()), code, own))
            code = ""
    return found


def split_at_commas(text):
    parts, depth = [""], 0
    for c in text:
        depth += (c in "(<{[") - (c in ")>}]")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [part.strip() for part in parts if part.strip()]


def call_of(code):
    """`huber_loss(prediction, target, options)`; None for what is no function."""
    code = re.sub(r"^(?:template <[^;{]*?>\n|requires [^\n]*\n)*", "", re.sub(r"//.*", "", code))
    found = re.match(r"(?:inline |constexpr |explicit )*[\w:]+(?:<.*?>)?[ &*]+(\w+)\((.*?)\)(?: const)?\s*[;{]", code, re.S)
    if not found:
        return None
    arguments = []
    for argument in split_at_commas(" ".join(found.group(2).split())):
        declared, _, default = argument.partition(" = ")
        if declared == "Line line":
            continue
        name = re.search(r"(\w+)$", declared).group(1)
        arguments.append(name + (f" = {default}" if default not in ("", "{}") else ""))
    return found.group(1), f"{found.group(1)}({', '.join(arguments)})"


def fields_of(code):
    """Of a struct without member functions: `.delta = 1`, and what is said of it."""
    inside = code[code.index("{") + 1 : code.rindex("}")]
    fields, comment = [], []
    for line in inside.split("\n"):
        stripped = line.strip()
        if stripped.startswith("///") and not stripped.startswith("///<"):
            comment.append(stripped[3:].strip())
            continue
        behind = re.match(r"\s*///< (.*)", line)
        if behind and fields:
            fields[-1][1] += " " + behind.group(1)
            continue
        found = re.match(r"(?!using|static|friend)[\w:]+(?:<.*>)?\s+(\w+[^;()]*);(?:\s*///< (.*))?$", stripped)
        if found:
            names, said = found.groups()
            name = ", ".join("." + each.replace(" = {}", "") for each in split_at_commas(names))
            fields.append([name, " ".join(comment + ([said] if said else []))])
        comment = []
    return fields


def cases_of(code):
    """Of an enum: each value, and what is said of it before or behind."""
    cases, comment = [], []
    for line in code[code.index("{") + 1 : code.rindex("}")].split("\n"):
        before, _, behind = line.partition("///")
        if behind and not before.strip() and not behind.startswith("<"):
            comment.append(behind.strip())
            continue
        for name in re.findall(r"\w+", before):
            cases.append((name, " ".join(comment + [behind.removeprefix("<").strip()]).strip()))
            comment = []
    return cases


def rows_of(text):
    """(code, meaning) of each row of a header's table."""
    rows = []
    for prefix, comment, code, own in statements(text):
        plain = code.strip()
        constant = re.match(r"inline constexpr \w+ (\w+)(?:\{.*?\})?;(?:\s*///< (.*))?", plain)
        struct = re.match(r"(?:struct|enum class) (\w+)[^;{]*\{", plain)
        if constant:
            name, said = constant.groups()
            if not own and not said and rows:
                rows[-1][0].append(name)
            else:
                rows.append([[name], "; ".join(filter(None, (comment.rstrip("." if said else ""), said)))])
        elif struct and plain.startswith("enum"):
            said = "; ".join(f"`{name}`" + (f": {text.rstrip('.')}" if text else "") for name, text in cases_of(plain))
            rows.append([[struct.group(1)], f"{comment if own else ''} {said}".strip()])
        elif struct:
            fields = fields_of(plain)
            about = comment if own else ""
            if struct.group(1).endswith(("Options", "Arguments")) or (fields and about):
                said = "; ".join(f"`{name}`" + (f": {text.rstrip('.')}" if text else "") for name, text in fields)
                rows.append([[struct.group(1)], f"{about} {said}".strip()])
        elif found := call_of(plain):
            name, call = found
            if name.startswith(SKIPPED):
                continue
            if not own and rows and comment:
                rows[-1][0].append(prefix + call)
            else:
                rows.append([[prefix + call], comment])
    return rows


def cell(text):
    return text.replace("|", "\\|")


def section(path, text):
    about = re.match(r"((?://.*\n)+)", text).group(1)
    about = " ".join(line[2:].strip() for line in about.split("\n//\n")[0].splitlines())
    lines = [f"## {path}", about, "", "| name | meaning |", "|---|---|"]
    for names, meaning in rows_of(text):
        lines.append(f"| {', '.join(f'`{cell(name)}`' for name in names)} | {cell(meaning)} |")
    return "\n".join(lines) + "\n"


def page(root=Path(".")):
    front = (root / FRONT).read_text(encoding="utf-8")
    return "\n".join([HEAD, *(section(path, (root / path).read_text(encoding="utf-8")) for path in headers(front))])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
