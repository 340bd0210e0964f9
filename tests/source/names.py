"""docs/names.md: every name that a program is written with, from the comments of the public headers.

    python3 tests/source/names.py    writes the page anew
"""

import dataclasses
import re
from pathlib import Path

PAGE = Path("docs/names.md")
FRONTS = (Path("executor/metronome.h"), Path("distributed/distributed.h"), Path("executor/metronome/import.h"), Path("executor/metronome/export.h"))
HEAD = """# All names

These are all names of a program: functions, layers, losses, optimizers, the graph, `compile`, the executable and their options. The meanings
are what the headers say. Tensors are named by their shapes: `[batch, 8]`.
The page is made from the headers: `python3 tests/source/names.py` writes it anew after a change there.
[reference.md](reference.md) groups the most used names, and links their tests.
"""

# Headers that those of the front doors include, each behind the one whose names need it.
ALSO = {
    "executor/compile/compile.h": ("graph/ir/mode.h",),
    "executor/compile/targets.h": ("executor/options/target.h",),
    "executor/run/executable.h": (
        "executor/checkpoint/snapshot.h",
        "executor/checkpoint/weights.h",
        "executor/engine/profile.h",
        "executor/engine/report.h",
    ),
    "ops/optimizers/optimizers.h": ("ops/optimizers/schedules.h",),
}
# Functions that are no words of a program: rules of ops, and those for layers of one's own.
SKIPPED = re.compile(r"require_\w+|initialise\w*|cannot_be_called|bind|record|reference|candidates")
INTERNAL = re.compile(r"\b(?:Emitter|GraphIdentity|Impl|Contents)\b|\bir::Graph\b|\bat\(Value x, int index")


@dataclasses.dataclass
class Declared:
    """A declaration, the comment before it, the comment behind it, and whether the first is its own: a declaration
    that follows another one at once shares its comment."""

    comment: str
    code: str
    behind: str
    own: bool
    prefix: str = ""


def headers(front):
    """Those that a front door includes, and those behind them; how ranks are launched is no word of a program."""
    included = re.findall(r'^#include "((?!distributed/launch/)\S+)"', front, re.M)
    return [path for each in included for path in (each, *ALSO.get(each, ()))]


def sentences(comment):
    """A comment's lines as one; lines of code in it, which are indented, are quoted."""
    said, is_code = [], False
    for line in filter(str.strip, comment):
        text = " ".join(line.split())
        if is_code and line.startswith("   "):
            said[-1] = f"{said[-1][:-1]} {text}`"
        else:
            is_code = line.startswith("   ")
            said.append(f"`{text}`" if is_code else text)
    return " ".join(said)


LITERAL = r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])\''


def masked(text):
    """The text with "_" in place of each character of a string or character."""
    return re.sub(LITERAL, lambda literal: "_" * len(literal.group()), text)


def code_and_comment(line):
    """A line without its comment, and the comment if it stands behind code for the page's sake: `///<`."""
    begin = masked(line).find("//")
    if begin < 0:
        return line, ""
    return line[:begin].rstrip(), line[begin + 4 :].strip() if line.startswith("///<", begin) else ""


TYPE = re.compile(r"(?:template <[^;{]*?>\s+|requires[ (][^\n]*\s+)*(struct|class|enum class) (\w+)[^;{]*\{")


def declarations(lines):
    """The declarations of a namespace or of a class's body, in order. A comment behind a line is said of the declaration
    that the line is of; those in the body of a type stay there, for its members."""
    found, comment, code, behind, depth, prefix, fresh = [], [], "", [], 0, "", True
    for line in lines:
        stripped = line.strip()
        if depth == 0 and not code:
            if more := re.match(r"///< ?(.*)", stripped):  # a longer comment behind the last one
                found[-1].behind += " " + more.group(1)
                continue
            if not stripped or re.match(r"// |\w+:$", stripped):
                comment, fresh = [], True
                continue
            if stripped.startswith("///"):
                comment = ([] if not fresh else comment) + [stripped[3:]]
                fresh = True
                continue
            own, behind = fresh, []
        fresh = False
        bare, said = code_and_comment(line)
        of_body = depth > 0 and TYPE.match(code)
        if said and not of_body:
            behind.append(said)
        code += (line if of_body else bare) + "\n"
        brackets = masked(bare)
        depth += sum(brackets.count(c) for c in "{(") - sum(brackets.count(c) for c in "})")
        if inside := re.match(r"namespace (\w+) \{|\}\s*$", code):
            prefix = f"{inside.group(1)}::" if inside.group(1) else ""
            comment, code, depth, fresh = [], "", 0, True
            continue
        if depth == 0 and re.search(r"[;}]$", bare.rstrip()):
            found.append(Declared(sentences(comment), code.strip(), " ".join(behind), own, prefix))
            code = ""
    return found


def public(code):
    """The lines of a class's body that everyone may use."""
    inside = code[code.index("{") + 1 : code.rindex("}")].split("\n")
    shown, lines = TYPE.match(code).group(1) != "class", []
    for line in inside:
        if label := re.match(r" (public|private|protected):", line):
            shown = label.group(1) == "public"
            line = ""
        if shown:
            lines.append(line)
    return lines


def split_at_commas(text):
    parts, depth = [""], 0
    for c, bracket in zip(text, masked(text)):
        depth += (bracket in "(<{[") - (bracket in ")>}]")
        if bracket == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [part.strip() for part in parts if part.strip()]


def with_default(name, default):
    """`name = default`; an empty default is none."""
    default = re.sub(r"^\{(.*)\}$", r"\1", default) if re.fullmatch(r"\{[\w'.]*\}", default) else default
    return name + (f" = {default}" if default not in ("", "{}") else "")


def arguments_of(text):
    """`x, axes, keep = false`; None where one has no name."""
    arguments = []
    for argument in split_at_commas(" ".join(text.split())):
        declared, _, default = argument.partition(" = ")
        if re.fullmatch(r"(?:Line|L) \w+", declared):
            continue
        name = re.search(r"[\w>)&*] [&*]?(\w+)$|\(.*\)> ?&? ?(\w+)$", declared)
        if not name:
            return None
        arguments.append(with_default(name.group(1) or name.group(2), default))
    return ", ".join(arguments)


SYMBOL = r"operator([-+*/<>]|[<>=!]=)"
CONSTRUCTOR = r"^(?:explicit )?(?:requires [^;]*? )?{}\((.*?)\)(?: noexcept)?(?: = default)?\s*[:;{{]"


def call_of(code, of=""):
    """`huber_loss(prediction, target, options)`, `x + y`; of a class `BatchOrder::epoch(epoch)`. None for what is no
    function."""
    code = re.sub(r"^(?:template <[^;{]*?>\n\s*|requires [^\n]*\n\s*)*", "", code)
    made = r"\)(?: const)?(?: noexcept)?\s*[;{]"
    if of and (constructor := re.match(CONSTRUCTOR.format(of), code, re.S)):
        arguments = arguments_of(constructor.group(1))
        return None if arguments is None else f"{of}({arguments})"
    if of and re.match(rf"(?:virtual )?~{of}\(\)", code):
        return f"~{of}()"
    found = re.match(
        rf"(?:inline |constexpr |static |const )*(?!explicit |operator )[\w:]+(?:<.*?>)?[ &*]+(operator\(\)|{SYMBOL}|\w+)\((.*?){made}",
        code,
        re.S,
    )
    if not found:
        return None
    name, symbol, text = found.groups()
    if (arguments := arguments_of(text)) is None:
        return None
    if symbol:
        names = arguments.split(", ")
        return f"{names[0]} {symbol} {names[1]}" if len(names) == 2 else f"{symbol}{names[0]}"
    return (f"{of}::" if of else "") + f"{name}({arguments})"


def members(code):
    return declarations(public(code))


def field_of(code):
    """`.delta = 1`; None for what is no data member."""
    code = re.sub(r"(?<=[{(]) |,? (?=[})])", "", " ".join(code.split()))
    code = re.sub(r"^(?:METRONOME_[A-Z_]+ )+", "", code)  # a macro before it, which ends without a semicolon
    found = re.match(
        r"(?!using |static |friend |struct |enum |class |operator )"
        r"(?:const |unsigned )*[\w:]+(?:<(?:[^()]|\([^()]*\))*>)?[ &*]+(\w+(?:\[\w*\])*(?:[ ={,].*)?);$",
        code,
    )
    if not found or re.search(r"\boperator\b", masked(code)):
        return None
    names = []
    for each in split_at_commas(found.group(1)):
        name, default = re.match(r"[&*]*(\w+)(?:\[\w*\])*(?: = )?(.*)$", each).groups()
        names.append("." + with_default(name, default))
    return ", ".join(names)


def fields_of(code):
    """Of a struct or class: `.delta = 1`, and what is said of it."""
    fields = []
    for member in members(code):
        if name := field_of(member.code):
            fields.append([name, " ".join(filter(None, (member.comment if member.own else "", member.behind)))])
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


def without_stop(text):
    return text if text.endswith("...") else text.rstrip(".")


def listed(named):
    return "; ".join(f"`{name}`" + (f": {without_stop(text)}" if text else "") for name, text in named)


def type_rows(declared):
    """Of a struct, class or enum: its own row, and one for each comment on member functions."""
    about, code = declared.comment if declared.own else "", declared.code
    kind, name = TYPE.match(code).groups()
    if kind == "enum class":
        return [[[name], f"{about} {listed(cases_of(code))}".strip()]]
    if re.search(r"\binfer\(std::span<const Type>", code):  # an op, which is no word of a program
        return []
    fields = fields_of(code)
    rows = []
    if about or fields:
        rows.append([[name], f"{about} {listed(fields)}".strip()])
    return rows + function_rows(members(code), of=name)


def function_rows(declared, of=""):
    """A row for each comment: the functions and constants that share it, then what stands behind single ones."""
    rows, group = [], []

    def close():
        if group:
            names = list(dict.fromkeys(name for name, _ in group))
            notes = list(dict.fromkeys((name, said) for name, said in group if said))
            if len(names) == 1 and notes:
                said = "; ".join(filter(None, (without_stop(comment), notes[0][1])))
            else:
                said = " ".join(filter(None, (comment, listed(notes))))
            rows.append([names, said])
            group.clear()

    comment, of_type = "", False
    for each in declared:
        if each.own or each.comment == "":
            close()
            comment, of_type = each.comment, False
        if TYPE.match(each.code):
            of_type = True
            if not of:
                close()
                rows += type_rows(each)
            continue
        constant = re.match(r"(?:inline )?constexpr \w+ (\w+)(?:\{.*?\})?;$|constexpr \w+ (\w+) = \w+::\w+;$", each.code)
        if constant:
            name = constant.group(1) or constant.group(2)
        elif INTERNAL.search(each.code.partition("{")[0]):
            continue
        else:
            name = call_of(each.code, of)
        if of_type and not constant:  # a value shares its type's comment, a function does not
            comment = ""
        if not name or SKIPPED.fullmatch(re.match(r"[\w~: ]*", name).group(0)):
            continue
        if of and not each.comment and not each.behind:  # said by the class
            continue
        if name.startswith("~") and not each.own:
            continue
        group.append((each.prefix + name, each.behind))
    close()
    return rows


def rows_of(text):
    """(names, meaning) of each row of a header's table."""
    lines = text[text.index("\nnamespace metronome {") :].split("\n")[2:]
    return function_rows([each for each in declarations(lines) if each.prefix not in INNER])


INNER = ("at::", "executor::", "distributed::", "ir::")  # declared there, defined elsewhere


def cell(text):
    """Text of a table's cell: outside of code neither experts[e](x) is a link nor l<k> a tag."""
    parts = re.split(r"(`[^`]*`)", text.replace("|", "\\|"))
    parts[::2] = [re.sub(r"(?<=\])\(|<(?=\w)", r"\\\g<0>", part) for part in parts[::2]]
    return "".join(parts)


def section(path, text):
    about = re.match(r"((?://.*\n)+)", text).group(1)
    about = " ".join(line[2:].strip() for line in about.split("\n//\n")[0].splitlines())
    lines = [f"## {path}", about, "", "| name | meaning |", "|---|---|"]
    for names, meaning in rows_of(text):
        lines.append(f"| {', '.join(f'`{cell(name)}`' for name in names)} | {cell(meaning)} |")
    return "\n".join(lines) + "\n"


def page(root=Path(".")):
    paths = [path for front in FRONTS for path in headers((root / front).read_text(encoding="utf-8"))]
    return "\n".join([HEAD, *(section(path, (root / path).read_text(encoding="utf-8")) for path in paths)])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
