"""Output of the pipeline commands."""

from __future__ import annotations

import json as json_text
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from odradek.cli.errors import print_error
from odradek.cli.output import show, show_json

if TYPE_CHECKING:
    from odradek.pipelines.commands.replay import Replay
    from odradek.pipelines.run.checks import Check

REPLAYED: Final = ["topic", "partition", "from_offset", "to_offset", "rows"]


def show_pairs(pairs: Sequence[tuple[str, str]]) -> None:
    """Print pairs of a label and a text, one per line."""
    width = max(len(label) for label, _ in pairs)
    for label, text in pairs:
        print(f"{label:<{width}}  {text}")


def note(message: str) -> None:
    """Print a message for people to stderr; the result goes to stdout."""
    print(message, file=sys.stderr, flush=True)


def warn(message: str | None) -> None:
    if message is not None:
        print_error(message)


def show_replay(replay: Replay, json: bool) -> None:
    if json:
        print(
            json_text.dumps(
                {"replay_id": replay.replay_id, "row_count": replay.row_count, "ranges": replay.rows()}
            )
        )
        return
    show(replay.rows(), REPLAYED, as_json=False)
    print(f"{replay.row_count:,} rows in total")


def show_checks(checks: list[Check], json: bool) -> None:
    if json:
        show_json([check._asdict() for check in checks])
        return
    width = max((len(check.what) for check in checks), default=0)
    for check in checks:
        print(f"{'✓' if check.ok else '✗'} {check.what:<{width}}  {check.found}")
        if not check.ok and check.fix is not None:
            print(f"  {'':<{width}}  → {check.fix}")
