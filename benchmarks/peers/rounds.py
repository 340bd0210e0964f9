"""Turns, medians and spreads."""

import statistics
from collections.abc import Callable, Hashable, Iterable


def samples(values: list[float]) -> dict:
    """Median and median absolute deviation; times 1.4826 that is a standard deviation where the
    noise is normal (Rousseeuw and Croux, 1993)."""
    median = statistics.median(values)
    mad = statistics.median(abs(value - median) for value in values)
    return {"median": median, "mad": mad, "samples": values}


def order(names: list, round: int) -> list:
    """Who goes when: each goes first once in as many rounds as there are names, and the direction
    alternates, so that nobody always follows the same neighbour."""
    start = round % len(names)
    turned = names[start:] + names[:start]
    return turned if round // len(names) % 2 == 0 else turned[:1] + turned[:0:-1]


def interleave(names: Iterable[Hashable], rounds: int, take: Callable) -> dict:
    """take(name) gives one sample of one contestant, or None once it has dropped out."""
    taken: dict = {name: [] for name in names}
    for round in range(rounds if taken else 0):
        for name in order(list(taken), round):
            value = take(name)
            if value is not None:
                taken[name].append(value)
    return taken
