"""Which of the compared libraries this Python has."""

import importlib
import unittest


def needs(*libraries: str):
    def reason(name: str) -> str:
        # A torch that serves libtorch alone is found, and cannot be imported.
        try:
            importlib.import_module(name)
        except ImportError as error:
            return f"this Python cannot import {name} ({error})"
        return ""

    missing = [why for why in map(reason, libraries) if why]
    return unittest.skipIf(missing, "; ".join(missing))
