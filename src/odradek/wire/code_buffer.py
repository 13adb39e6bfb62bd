"""Python source under construction: indented lines, the names they use, and runs of fixed-width fields.

A run is a stretch of fields of fixed width that lie side by side; it is read or written with a single
``struct.Struct`` instead of one call per field.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

from odradek.wire.schema import FIXED, Field


class Source:
    """The body of one function, written line by line."""

    def __init__(self, env: dict[str, Any]) -> None:
        self.env = env
        self._lines: list[str] = []
        self._depth = 0
        self._names = 0
        self.run: list[tuple[str, str]] = []
        """Codes of the run under way, each with the expression or target that goes with it."""

    def line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    def open(self, text: str) -> None:
        """Begin a block."""
        self.line(text)
        self._depth += 1

    def close(self) -> None:
        self._depth -= 1

    def fresh(self, prefix: str) -> str:
        """A name not used before."""
        self._names += 1
        return f"{prefix}{self._names}"

    def constant(self, value: object, prefix: str) -> str:
        """Give a value a name the function can use."""
        name = self.fresh(prefix)
        self.env[name] = value
        return name

    def take_run(self) -> tuple[str, list[str]]:
        """End the run: its format without byte order, and its expressions without those of pad bytes."""
        codes = "".join(code for code, _ in self.run)
        names = [name for code, name in self.run if code != "x"]
        self.run.clear()
        return codes, names

    def layout(self, codes: str, method: str) -> tuple[str, int]:
        """Name of a method of the compiled layout, and the layout's size."""
        packing = Struct(">" + codes)
        name = f"{method}_{codes.replace('?', 't')}"
        self.env[name] = getattr(packing, method)
        return name, packing.size

    def function(self, name: str) -> Any:
        """Compile the lines and give the function defined by them."""
        exec("\n".join(self._lines), self.env)
        return self.env[name]


def size_of(field: Field) -> int:
    """Bytes of a field of fixed width."""
    return Struct(">" + FIXED[field.kind]).size
