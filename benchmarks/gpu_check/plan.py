"""The minutes that a whole run is reckoned to take, by what each piece says of itself."""

from pieces import PARTS, SHORT, Piece, chosen_pieces
from runner import MOST_TOGETHER

# With a machine, in calls of nine: what must be there by then, and already by the end of the first.
MOST_MINUTES = 26
MUST, AT_ONCE = "peers", "compare-small"


# Of a short call.
SHORT_MINUTES = 6


def reckoned(pieces: list[Piece]) -> float:
    """Minutes: one by one, but MOST_TOGETHER at once of a part whose pieces time nothing."""
    seconds = 0.0
    for part in PARTS:
        of = [piece for piece in pieces if piece.part == part]
        seconds += sum(piece.about for piece in of if not piece.together)
        together = [piece.about for piece in of if piece.together]
        seconds += max([sum(together) / MOST_TOGETHER, *together])
    return seconds / 60


def until(part: str, pieces: list[Piece]) -> list[Piece]:
    """All up to the last of that part."""
    last = max(i for i, piece in enumerate(pieces) if piece.part == part)
    return pieces[: last + 1]


def needed_minutes(pieces: list[Piece]) -> float:
    return reckoned(until(MUST, pieces))


def plan(pieces: list[Piece]) -> list[str]:
    """Of each part how many pieces it has, and how long they take; and when what counts is there."""
    lines = []
    for part in PARTS:
        of = [piece for piece in pieces if piece.part == part]
        if of:
            lines.append(f"{part:<15} {len(of):3} pieces {reckoned(of):5.1f} min  {of[0].what}")
    for name in SHORT:
        of = chosen_pieces([name], pieces)
        lines.append(
            f"{name:<15} {len(of):3} pieces {reckoned(of):5.1f} min  in calls of {SHORT_MINUTES} min, "
            f"from {of[1].name} on"
        )
    return [
        *lines,
        f"reckoned: the small models' figures after {reckoned(until(AT_ONCE, pieces)):.1f} min, all "
        f"up to the {MUST} after {needed_minutes(pieces):.1f}, everything after {reckoned(pieces):.1f}",
    ]
