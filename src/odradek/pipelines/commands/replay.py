"""Read a window of time once more, through the same transform, into the same sink.

The window becomes offsets once, and they are pinned under the window's name beside the checkpoint before
anything is written. So a replay that is run twice, or again after a crash, reads the same rows under the same
id, and a sink that writes exactly once adds them once. Records that came into the window since are told of,
and left alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from odradek.cli.errors import CommandFailed
from odradek.cli.groups.reset_offsets import fetch_offset_bounds, fetch_offsets_at_time
from odradek.cli.groups.reset_plan import InvalidResetTarget, parse_datetime_ms
from odradek.model.ids import TopicPartition
from odradek.pipelines.clusters import source_admin, source_partitions
from odradek.pipelines.monitoring.progress import Offsets, read_offsets

if TYPE_CHECKING:
    from odradek.pipelines.checkpoint.checkpoint import Checkpoint
    from odradek.pipelines.spec.reader import Spec


class Window(NamedTuple):
    """From a time up to, and without, another."""

    from_ms: int
    to_ms: int

    @property
    def file(self) -> str:
        return f"replays/{self.from_ms}-{self.to_ms}.json"


class Replay(NamedTuple):
    """What a replay reads: offsets from ``start`` up to, and without, ``end``, under an id of its own."""

    replay_id: str
    start: Offsets
    end: Offsets
    came_later: int = 0
    """Offsets that are in the window now and were not when it was pinned."""

    @property
    def row_count(self) -> int:
        """Offsets in it; records may be fewer, as compaction and transactions leave gaps."""
        return sum(one["rows"] for one in self.rows())

    def rows(self) -> list[dict[str, Any]]:
        """For tables and JSON."""
        return [
            {
                "topic": topic,
                "partition": number,
                "from_offset": start,
                "to_offset": self.end[topic][number],
                "rows": self.end[topic][number] - start,
            }
            for topic, of_topic in sorted(self.start.items())
            for number, start in sorted(of_topic.items())
        ]


def read_window(from_text: str, to_text: str) -> Window:
    """Two times; raises InvalidResetTarget."""
    window = Window(parse_datetime_ms(from_text), parse_datetime_ms(to_text))
    if window.from_ms >= window.to_ms:
        raise InvalidResetTarget(f"--from {from_text} is not before --to {to_text}")
    return window


def check_sink(spec: Spec) -> None:
    """A replay is part of the rows: a sink that replaces everything would lose the others."""
    if spec.sink.mode == "complete":
        raise CommandFailed(
            f"{spec.name} replaces its whole result with every batch (mode = complete): a replay of a part "
            "would throw away the rest. `odradek pipeline reset` computes all of it again"
        )


def replay_id(name: str, window: Window, start: Offsets, end: Offsets) -> str:
    """The same for the same rows, and another for others: a sink must never take one for the other."""
    offsets = json.dumps([start, end], sort_keys=True)
    digest = hashlib.sha256(offsets.encode()).hexdigest()[:12]
    return f"{name}-replay-{window.from_ms}-{window.to_ms}-{digest}"


def fresh_replay(
    name: str, window: Window, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> Replay:
    """A window that was never replayed. Every partition is named, so that none is read by default."""
    start: Offsets = {}
    end: Offsets = {}
    for one in sorted(starts):
        start.setdefault(one.topic, {})[one.partition] = starts[one]
        # Timestamps need not grow with offsets: a later time can be found before an earlier one.
        end.setdefault(one.topic, {})[one.partition] = max(starts[one], ends[one])
    return Replay(replay_id(name, window, start, end), start, end)


def pinned_replay(name: str, window: Window, text: str, now: Replay) -> Replay:
    """A window that was replayed before: its rows are those of then."""
    kept = json.loads(text)
    start, end = read_offsets(kept["start"]), read_offsets(kept["end"])
    if start is None or end is None:
        raise CommandFailed(f"{window.file} beside the checkpoint of {name} has no offsets in it")
    then = Replay(replay_id(name, window, start, end), start, end)
    return then._replace(came_later=max(0, now.row_count - then.row_count))


def pinned_text(replay: Replay) -> str:
    return json.dumps({"id": replay.replay_id, "start": replay.start, "end": replay.end}, sort_keys=True)


def plan(spec: Spec, window: Window, checkpoint: Checkpoint) -> tuple[Replay, bool]:
    """The replay of a window, and whether it was begun before."""
    check_sink(spec)
    with source_admin(spec) as admin:
        partitions = source_partitions(admin, spec.source)
        bounds = fetch_offset_bounds(admin, partitions)
        starts = fetch_offsets_at_time(admin, partitions, bounds, window.from_ms)
        ends = fetch_offsets_at_time(admin, partitions, bounds, window.to_ms)
    now = fresh_replay(spec.name, window, starts, ends)
    text = checkpoint.read_sidecar(window.file)
    return (now, False) if text is None else (pinned_replay(spec.name, window, text, now), True)


def pin(window: Window, replay: Replay, checkpoint: Checkpoint) -> None:
    """Write down what the window stands for, for the next time and, under its id, for the driver."""
    checkpoint.write_sidecar(window.file, pinned_text(replay))
    checkpoint.write_sidecar(f"replays/{replay.replay_id}.json", pinned_text(replay))
