"""The forms of a peer: its ways to do the same, of which the fastest is kept."""

import time
from collections.abc import Callable
from typing import Any

# The first steps of a form compile, allocate and record; these many leave nothing of that to do.
WARM_UP = 5


class Forms:
    """What all peers have in common. `step` takes one step in the form that is chosen."""

    form: Any

    def try_forms(self, makers: dict[str, Callable[[], Any]]) -> None:
        """Makes each form and takes its first steps. The others may do where one fails."""
        self.trouble: dict[str, str] = {}  # the report says what failed
        self.forms: dict[str, Any] = {}
        for name, make in makers.items():
            try:
                self.form = make()
                self.take(0, WARM_UP)
                self.forms[name] = self.form
            except Exception as error:
                self.trouble[name] = f"{type(error).__name__}: {error}"
        if not self.forms:
            raise RuntimeError("; ".join(self.trouble.values()))
        self.choose(next(iter(self.forms)))

    def choose(self, name: str) -> None:
        self.form = self.forms[name]
        self.restore()

    def restore(self) -> None:
        """Goes back to the first step."""

    def step(self, index: int) -> float:
        raise NotImplementedError

    def take(self, first: int, count: int) -> list[float]:
        """What the steps from the first on give."""
        step = self.step
        return [step(index) for index in range(first, first + count)]

    def time(self, first: int, count: int) -> float:
        """Milliseconds a step, with what it gives read after each."""
        start = time.perf_counter()
        self.take(first, count)
        return (time.perf_counter() - start) * 1e3 / count
