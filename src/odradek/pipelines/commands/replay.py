"""``odradek pipeline replay``: process a window of time again, into the same sink.

The offsets of the window are resolved once, and stored beside the checkpoint before anything is written. So a
replay that is repeated, or runs again after a crash, reads the same rows under the same id, and an
exactly-once sink writes them once. Records that arrived in the window later are reported, and not read.
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
    """A window of time, without its end."""

    from_ms: int
    to_ms: int

    @property
    def file(self) -> str:
        return f"replays/{self.from_ms}-{self.to_ms}.json"


class Replay(NamedTuple):
    """A replay: offsets from ``start`` (inclusive) to ``end`` (exclusive), and an id."""

    replay_id: str
    start: Offsets
    end: Offsets
    late_count: int = 0
    """Number of offsets in the window that arrived after it was stored."""

    @property
    def row_count(self) -> int:
        """Number of offsets; there may be fewer records, as compaction and transactions leave gaps."""
        return sum(row["rows"] for row in self.rows())

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of a table or of JSON output."""
        return [
            {
                "topic": topic,
                "partition": number,
                "from_offset": start,
                "to_offset": self.end[topic][number],
                "rows": self.end[topic][number] - start,
            }
            for topic, partitions in sorted(self.start.items())
            for number, start in sorted(partitions.items())
        ]


def read_window(from_text: str, to_text: str) -> Window:
    """Parse a window; raise InvalidResetTarget."""
    window = Window(parse_datetime_ms(from_text), parse_datetime_ms(to_text))
    if window.from_ms >= window.to_ms:
        raise InvalidResetTarget(f"--from must be before --to {to_text}, got {from_text}")
    return window


def check_sink(spec: Spec) -> None:
    """Raise CommandFailed for mode complete, which would replace all rows by those of the window."""
    if spec.sink.mode == "complete":
        raise CommandFailed(
            f"{spec.name} has [sink] mode complete, which replaces the whole result: a replay would delete "
            "all other rows. Use `odradek pipeline reset` to compute everything again"
        )


def replay_id(name: str, window: Window, start: Offsets, end: Offsets) -> str:
    """Return an id that is unique for the rows of the replay."""
    offsets = json.dumps([start, end], sort_keys=True)
    digest = hashlib.sha256(offsets.encode()).hexdigest()[:12]
    return f"{name}-replay-{window.from_ms}-{window.to_ms}-{digest}"


def new_replay(
    name: str, window: Window, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> Replay:
    """Return the first replay of a window. All partitions are listed, so that none is read by default."""
    start: Offsets = {}
    end: Offsets = {}
    for partition in sorted(starts):
        start.setdefault(partition.topic, {})[partition.partition] = starts[partition]
        # Timestamps need not increase with offsets: a later time may have a lower offset.
        end.setdefault(partition.topic, {})[partition.partition] = max(starts[partition], ends[partition])
    return Replay(replay_id(name, window, start, end), start, end)


def stored_replay(name: str, window: Window, text: str, current: Replay) -> Replay:
    """Return the stored replay of a window that was replayed before."""
    value = json.loads(text)
    start, end = read_offsets(value["start"]), read_offsets(value["end"])
    if start is None or end is None:
        raise CommandFailed(f"{window.file} beside the checkpoint of {name} has no valid offsets")
    stored = Replay(replay_id(name, window, start, end), start, end)
    return stored._replace(late_count=max(0, current.row_count - stored.row_count))


def replay_json(replay: Replay) -> str:
    return json.dumps({"id": replay.replay_id, "start": replay.start, "end": replay.end}, sort_keys=True)


def plan(spec: Spec, window: Window, checkpoint: Checkpoint) -> tuple[Replay, bool]:
    """Return the replay of a window, and True if the window was replayed before."""
    check_sink(spec)
    with source_admin(spec) as admin:
        partitions = source_partitions(admin, spec.source)
        bounds = fetch_offset_bounds(admin, partitions)
        starts = fetch_offsets_at_time(admin, partitions, bounds, window.from_ms)
        ends = fetch_offsets_at_time(admin, partitions, bounds, window.to_ms)
    current = new_replay(spec.name, window, starts, ends)
    text = checkpoint.read_sidecar(window.file)
    return (current, False) if text is None else (stored_replay(spec.name, window, text, current), True)


def store(window: Window, replay: Replay, checkpoint: Checkpoint) -> None:
    """Store the offsets of the window: for later replays, and under the replay's id for the driver."""
    checkpoint.write_sidecar(window.file, replay_json(replay))
    checkpoint.write_sidecar(f"replays/{replay.replay_id}.json", replay_json(replay))
