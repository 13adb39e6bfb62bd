"""What commands about pipelines print."""

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
    """What and how, one pair a line."""
    width = max(len(what) for what, _ in pairs)
    for what, words in pairs:
        print(f"{what:<{width}}  {words}")


def note(words: str) -> None:
    """Something for people beside the result, which goes to stdout."""
    print(words, file=sys.stderr, flush=True)


def warn(words: str | None) -> None:
    if words is not None:
        print_error(words)


def show_replay(found: Replay, json: bool) -> None:
    if json:
        print(
            json_text.dumps(
                {"replay_id": found.replay_id, "row_count": found.row_count, "ranges": found.rows()}
            )
        )
        return
    show(found.rows(), REPLAYED, as_json=False)
    print(f"{found.row_count:,} rows in all")


def show_checks(checks: list[Check], json: bool) -> None:
    if json:
        show_json([one._asdict() for one in checks])
        return
    width = max((len(one.what) for one in checks), default=0)
    for one in checks:
        print(f"{'✓' if one.ok else '✗'} {one.what:<{width}}  {one.found}")
        if not one.ok and one.fix is not None:
            print(f"  {'':<{width}}  → {one.fix}")
