"""The results as a page for people: `gpu-check.md`."""

import os
from collections.abc import Iterable
from pathlib import Path

from pieces import PARTS
from results import Refused, Results, require_own

STATES = ("passed", "failed", "unavailable", "unfinished")
# Of a profile, that the page shows.
LONGEST = 15
PRECISIONS = {"ieee": "IEEE fp32", "tf32": "TF32"}


def table(head: list[str], rows: Iterable[list[str]]) -> list[str]:
    """Left-aligned first column, the others to the right."""
    lines = [" | ".join(head), " | ".join(["---", *["---:"] * (len(head) - 1)])]
    lines += [" | ".join(cell.replace("|", "/") for cell in row) for row in rows]
    return [f"| {line} |" for line in lines] + [""]


def ms(samples: dict | None, unit: float = 1) -> str:
    if not samples:
        return "-"
    median, spread = unit * samples["median"], 1.4826 * unit * samples["mad"]
    digits = 4 if median < 1 else 2 if median < 100 else 1
    return f"{median:.{digits}f} +- {spread:.{digits}f}"


def number(value, form: str) -> str:
    return "-" if value is None else format(value, form)


def parts_in(records: Iterable[dict]) -> list[str]:
    found = {record["part"] for record in records}
    return [part for part in PARTS if part in found] + sorted(found - set(PARTS))


def counts(records: list[dict]) -> list[str]:
    rows = []
    for part in parts_in(records):
        states = [record["status"] for record in records if record["part"] == part]
        seconds = sum(record["seconds"] for record in records if record["part"] == part)
        rows.append([part, *(str(states.count(s)) for s in STATES), f"{seconds:.0f}"])
    return table(["part", *STATES, "s"], rows)


def failed(records: list[dict]) -> list[str]:
    lines = []
    for record in records:
        if record["status"] != "failed":
            continue
        lines.append(f"- **{record['piece']}** ({record['what']}): {record['detail']}")
        results = record.get("results")
        for outcome in results if isinstance(results, list) else []:
            if not outcome.get("passed", True):
                first = (outcome["detail"].splitlines() or [""])[0]
                lines.append(f"  - {outcome['subject']}: {outcome['check']}: {first}")
    return ["## Failed", "", *(lines or ["Nothing."]), ""]


def others(records: list[dict], state: str, title: str) -> list[str]:
    """By part and reason: one that holds for many is told once."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for record in records:
        if record["status"] == state:
            reasons.setdefault((record["part"], record["detail"]), []).append(record["piece"])
    if not reasons:
        return []
    lines = []
    for (part, reason), names in reasons.items():
        named = ", ".join(names) if len(names) <= 4 else f"{len(names)} of {part}"
        lines.append(f"- {named}: {reason}")
    return [f"## {title}", "", *lines, ""]


def kept_form(result: dict) -> str:
    forms = [form for form in result.get("forms", []) if form.endswith(", kept")]
    return forms[0].partition(":")[0] if forms else "-"


def comparisons(records: list[dict], scale: str) -> list[str]:
    found = [
        result
        for record in records
        if record["part"] == f"compare-{scale}" and isinstance(record.get("results"), dict)
        for result in record["results"].get("results", [])
    ]
    if not found:
        return []
    head = ["model", "eager ms", "deterministic", "planned ms", "eager / planned"]
    head += ["fed: eager ms", "fed: planned ms", "floor ms"]
    rows = [
        [
            result["model"],
            ms(result["eager_ms"]),
            ms(result.get("eager_deterministic_ms")),
            ms(result["planned_ms"]),
            f"{result['ratio']:.2f} ({result['verdict']})",
            ms(result.get("eager_fed_ms")),
            ms(result.get("planned_fed_ms")),
            number(result.get("floor_ms"), ".4f"),
            number(result.get("over_floor"), ".2f"),
            ms(result.get("host_us")),
            str(result.get("graph_nodes", result["kernels_planned"])),
            kept_form(result),
            "yes" if result["agree"] else f"NO: {result['disagreement']}",
        ]
        for result in found
    ]
    return [
        f"## A training step beside libtorch's eager one, {scale}",
        "",
        *table([*head, "planned / floor", "host us", "nodes", "form", "agrees"], rows),
    ]


def peer_row(row: dict, model: str, again: bool) -> list[str]:
    said = row.get("unavailable")
    time = f"unavailable: {said}" if said else ms(row.get("ms"))
    agrees = "-" if said else "yes" if row.get("agree") else "NO"
    label = f"{row['label']}, once more" if again else row["label"]
    return [model, label, time, number(row.get("ratio"), ".2f"), agrees]


def peers(records: list[dict]) -> list[str]:
    """A table of each scale and precision, model by model. Who compiles is measured beside eager
    steps of its own piece, which are shown once more."""
    tables: dict[tuple[str, str], dict[str, list[list[str]]]] = {}
    for record in records:
        if not record["part"].startswith("peers") or not isinstance(record.get("results"), dict):
            continue
        for result in record["results"].get("results", []):
            models = tables.setdefault((result["scale"], result["precision"]), {})
            rows = models.setdefault(result["model"], [])
            again = bool(rows)
            for row in result["peers"]:
                rows.append(peer_row(row, result["model"], again and row["peer"] == "eager"))
    lines = []
    for (scale, precision), models in tables.items():
        lines += [f"## Beside PyTorch and JAX: {scale}, {PRECISIONS[precision]}", ""]
        rows = [row for of in models.values() for row in of]
        lines += table(["model", "peer", "ms", "eager / it", "agrees"], rows)
    return lines


def floors(records: list[dict]) -> dict[tuple[str, str], float]:
    """(model, scale) -> ms, as the comparison measured it."""
    return {
        (result["model"], result["scale"]): result["floor_ms"]
        for record in records
        if record["part"].startswith("compare-") and isinstance(record.get("results"), dict)
        for result in record["results"].get("results", [])
        if "floor_ms" in result
    }


def profiles(records: list[dict]) -> list[str]:
    """Of each model: its kernels, longest first, and what its step takes at least. A profile is
    {"step_microseconds": 9.5, "kernels": [{"kernel": "layer_norm", "microseconds": 2.5, "by": "launches"}, ...]},
    microseconds a step: the "times" of a plan's record. Of a captured step also how long none ran,
    and how long they overlapped."""
    lines, least = [], floors(records)
    for record in records:
        found = record.get("results")
        if record["part"] != "profiles" or not isinstance(found, dict):
            continue
        _, scale, model = record["piece"].split("-", 2)
        kernels = sorted(found.get("kernels", []), key=lambda each: -each["microseconds"])
        total = sum(each["microseconds"] for each in kernels)
        floor = least.get((model, scale))
        beside = "not measured" if floor is None else f"{1e3 * floor:.1f} us"
        ways = ", ".join(dict.fromkeys(each["by"] for each in kernels)) or "nothing"
        step = f"{found['step_microseconds']:.1f} us a step, {total:.1f} in kernels, by {ways}"
        if found.get("idle_microseconds") or found.get("overlap_microseconds"):
            step += f", {found['idle_microseconds']:.1f} in none, {found['overlap_microseconds']:.1f} overlapping"
        lines += [f"### {model}, {scale}: {step}; floor {beside}", ""]
        rows = [
            [each["kernel"], f"{us:.2f}", f"{100 * us / total:.1f} %"]
            for each in kernels[:LONGEST]
            for us in [each["microseconds"]]
        ]
        if len(kernels) > LONGEST:
            rest = sum(each["microseconds"] for each in kernels[LONGEST:])
            rows.append([f"{len(kernels) - LONGEST} more", f"{rest:.2f}", f"{100 * rest / total:.1f} %"])
        lines += table(["kernel", "us a step", "share"], rows)
    return ["## Where a step's time goes", "", *lines] if lines else []


def quoted(records: list[dict], part: str, title: str) -> list[str]:
    """The last lines of each piece that passed."""
    lines = []
    for record in records:
        if record["part"] == part and record["status"] == "passed" and "said" in record:
            lines += [f"### {record['what']}", "", *(f"    {line}" for line in record["said"]), ""]
    return [f"## {title}", "", *lines] if lines else []


def seen(records: list[dict], parts: tuple[str, ...], title: str) -> list[str]:
    """What checks saw, in their own words."""
    rows = [
        [outcome["subject"], outcome["check"], (outcome["detail"].splitlines() or [""])[0]]
        for record in records
        if record["part"] in parts and isinstance(record.get("results"), list)
        for outcome in record["results"]
        if outcome.get("passed")
    ]
    if not rows:
        return []
    lines = [f"- {subject}: {check}{': ' if detail else ''}{detail}" for subject, check, detail in rows]
    return [f"## {title}", "", *lines, ""]


def measured(who: dict, records: list[dict]) -> str:
    """The commits and the times of pieces that ended."""
    ended = [record for record in records if record["status"] != "unfinished"]
    commits = ", ".join(dict.fromkeys(record["commit"] for record in ended)) or who["commit"]
    dates = sorted(record["date"] for record in ended)
    when = f"; pieces ended from {dates[0]} to {dates[-1]}" if dates else ""
    return f"commit {commits}, bundle {who['bundle']}{when}."


def page(results: Results) -> str:
    """Throws Refused if a record is of another bundle or device."""
    who, records = results.identity, list(results.records.values())
    require_own(results.file, records, who)
    order = {part: i for i, part in enumerate(PARTS)}
    records.sort(key=lambda record: order.get(record["part"], len(order)))
    machine = who["machine"]
    lines = [
        "# What the GPU check found",
        "",
        f"{who['device'] or 'No GPU'}; {machine['cpu']}, {machine['cores']} cores; driver "
        f"{machine.get('driver', 'unknown')}; {measured(who, records)}",
        "Times are medians +- 1.4826 MAD; every sample is in `gpu-check.jsonl`. A fed step copies its "
        "batch from page-locked memory.",
        "",
        *counts(records),
        *failed(records),
        *others(records, "unavailable", "Unavailable"),
        *others(records, "unfinished", "Not reached: call it again"),
        *comparisons(records, "small"),
        *comparisons(records, "full"),
        *profiles(records),
        *peers(records),
        *quoted(records, "training", "Trainings"),
        *seen(records, ("device",), "The device"),
        *seen(records, ("models-small", "models-full"), "Models"),
        *seen(records, ("allocations",), "CUDA calls of a replay"),
        *seen(records, ("engines",), "Engines of convolutions"),
    ]
    return "\n".join(lines).rstrip() + "\n"


def write_page(results: Results) -> str | None:
    """What hindered it, where it failed: the run whose results it shows must go on."""
    try:
        text = page(results)
    except (KeyError, TypeError, ValueError, AttributeError, ZeroDivisionError) as error:
        return f"gpu-check.md is not written: {type(error).__name__}: {error}"
    except Refused as reason:
        return f"gpu-check.md is not written: {reason}"
    file: Path = results.folder / "gpu-check.md"
    partial = file.with_name(file.name + ".partial")
    partial.write_text(text)
    os.replace(partial, file)
    return None
