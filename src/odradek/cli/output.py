"""Output of commands: a table on a terminal, plain columns elsewhere, or JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence

from odradek.cli.errors import print_error

Row = Mapping[str, object]


def show(rows: Iterable[Row], columns: Sequence[str], *, as_json: bool, empty: str | None = None) -> None:
    """Print rows: JSON with all fields, or a table with these columns.

    ``empty`` is printed to stderr instead of an empty table.
    """
    listed = list(rows)
    if as_json:
        show_json(listed)
    elif not listed and empty is not None:
        print_error(empty)
    elif sys.stdout.isatty():
        _show_table(listed, columns)
    else:
        _show_plain(listed, columns)


def show_line(line: str, *, flush: bool = False) -> None:
    """Print a line; ``flush`` for progress of long work, also into a pipe."""
    print(line, flush=flush)


def show_json(value: object) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))


def show_done(verb: str, rows: Iterable[Row], *, as_json: bool) -> None:
    """Print one line per row (``deleted letters``), or JSON."""
    listed = list(rows)
    if as_json:
        show_json(listed)
        return
    for row in listed:
        print(verb, *(str(value) for value in row.values()))


def show_fields(fields: Mapping[str, object]) -> None:
    """Print names and values, one pair per line."""
    width = max(map(len, fields))
    for name, value in fields.items():
        print(f"{name.ljust(width)}  {_cell(value)}")


def as_size(size_bytes: int | None) -> str | None:
    """Format a number of bytes: 512 B, 1.5 MB."""
    if size_bytes is None or size_bytes < 1000:
        return None if size_bytes is None else f"{size_bytes} B"
    amount = float(size_bytes)
    for unit in ("kB", "MB", "GB"):
        amount /= 1000
        if amount < 999.95:
            return f"{amount:.1f} {unit}"
    return f"{amount / 1000:.1f} TB"


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(map(str, value)) or "-"
    return str(value)


def _heading(column: str) -> str:
    return column.replace("_", " ").upper()


def _show_table(rows: Sequence[Row], columns: Sequence[str]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*(_heading(column) for column in columns), box=None, header_style="bold", pad_edge=False)
    for row in rows:
        table.add_row(*(Text(_cell(row.get(column)), overflow="fold") for column in columns))
    Console().print(table)


def _show_plain(rows: Sequence[Row], columns: Sequence[str]) -> None:
    heading = [_heading(column) for column in columns]
    lines = [heading, *([_cell(row.get(column)) for column in columns] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
