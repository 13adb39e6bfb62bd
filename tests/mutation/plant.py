"""A bug that is planted on purpose."""

from __future__ import annotations

from typing import NamedTuple


class Plant(NamedTuple):
    """``before`` occurs once in the module, and becomes ``after``."""

    promise: str
    path: str
    before: str
    after: str
    tests: tuple[str, ...]
