"""What commands print: a table for people, plain columns where nobody watches, or JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

Row = dict[str, Any]


def show(rows: Iterable[Row], columns: Sequence[str], *, as_json: bool) -> None:
    """Print rows. JSON has all their fields, a table the named columns."""
    listed = list(rows)
    if as_json:
        show_json(listed)
    elif sys.stdout.isatty():
        _show_table(listed, columns)
    else:
        _show_plain(listed, columns)


def show_json(value: object) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(str(one) for one in value) or "-"
    return str(value)


def _heading(column: str) -> str:
    return column.replace("_", " ").upper()


def _show_table(rows: Sequence[Row], columns: Sequence[str]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*(_heading(one) for one in columns), box=None, header_style="bold", pad_edge=False)
    for row in rows:
        table.add_row(*(Text(_cell(row.get(one)), overflow="fold") for one in columns))
    Console().print(table)


def _show_plain(rows: Sequence[Row], columns: Sequence[str]) -> None:
    lines = [[_heading(one) for one in columns], *([_cell(row.get(one)) for one in columns] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
