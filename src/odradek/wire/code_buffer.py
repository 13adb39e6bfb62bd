"""Buffer of generated Python source: indented lines, the names they use, and runs of fixed-width fields.

A run is a sequence of adjacent fixed-width fields, read or written with a single ``struct.Struct`` instead of
one call per field.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

from odradek.wire.schema import FIXED, Field


class CodeBuffer:
    """Source of one generated function."""

    def __init__(self, env: dict[str, Any]) -> None:
        self.env = env
        self._lines: list[str] = []
        self._depth = 0
        self._names = 0
        self.run: list[tuple[str, str]] = []
        """Struct codes of the current run, each with its expression or target."""

    def line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    def open(self, text: str) -> None:
        """Add a line that opens an indented block."""
        self.line(text)
        self._depth += 1

    def close(self) -> None:
        self._depth -= 1

    def fresh(self, prefix: str) -> str:
        """Return an unused name."""
        self._names += 1
        return f"{prefix}{self._names}"

    def constant(self, value: object, prefix: str) -> str:
        """Bind a value to a fresh global name of the function."""
        name = self.fresh(prefix)
        self.env[name] = value
        return name

    def take_run(self) -> tuple[str, list[str]]:
        """End the run; return its format without byte order, and its expressions without pad bytes."""
        codes = "".join(code for code, _ in self.run)
        names = [name for code, name in self.run if code != "x"]
        self.run.clear()
        return codes, names

    def layout(self, codes: str, method: str) -> tuple[str, int]:
        """Return the global name of a ``Struct`` method for the format, and the format's size."""
        packing = Struct(">" + codes)
        name = f"{method}_{codes.replace('?', 't')}"
        self.env[name] = getattr(packing, method)
        return name, packing.size

    def function(self, name: str) -> Any:
        """Compile the lines and return the function they define."""
        exec("\n".join(self._lines), self.env)
        return self.env[name]


def size_of(field: Field) -> int:
    """Return the size of a fixed-width field."""
    return Struct(">" + FIXED[field.kind]).size
