"""Producer state of a log and its snapshots.

The state is a function of the log's batches. A snapshot is taken at the start of every segment and when the
log is closed; the next flush writes it after syncing the batches before it. So there is a snapshot wherever
recovery starts, and none describes batches that a crash can lose. Startup loads the newest valid snapshot and
replays the headers of the batches after it; after a clean shutdown there are none.

Invariant: ``states`` covers all batches up to the log end offset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final

from odradek.log.producers.producer_states import BatchMetadata, ProducerStateEntry, ProducerStates
from odradek.log.producers.snapshot_file import decode_snapshot, encode_snapshot
from odradek.log.segments.log_segment import LogSegment, SegmentContext
from odradek.log.segments.segment_format import SNAPSHOT, Buffer, parse_file_name
from odradek.log.segments.transaction_index import AbortedTransaction
from odradek.model.errors import BrokerError, ErrorCode, StorageError
from odradek.records.codec import decode_batch
from odradek.records.control_records import EndTransactionMarker, read_end_marker
from odradek.records.layout import CONTROL_BIT, BatchHeader
from odradek.records.validation import AppendOrigin
from odradek.telemetry import events

log = events.logger("producer_state")

REPLAY_SNAPSHOTS: Final = 2
"""Last segments that get a snapshot while state is rebuilt from batches, as in Kafka."""


class ProducerStateManager:
    """Producer state of one log.

    ``latest_snapshot_offset`` is the offset of the latest snapshot, written or pending.
    """

    __slots__ = ("_pending", "latest_snapshot_offset", "states")

    def __init__(self, offset: int, producers: Iterable[ProducerStateEntry] = ()) -> None:
        """Start with the entries of a snapshot at ``offset``, or empty at the start of a log."""
        self.states = ProducerStates(producers)
        self.latest_snapshot_offset = offset
        self._pending: dict[int, list[ProducerStateEntry]] = {}

    # Batches.

    def check(self, header: BatchHeader, data: Buffer, origin: AppendOrigin) -> BatchMetadata | None:
        """Validate a batch before its append; return the earlier batch if it is a duplicate."""
        if origin is AppendOrigin.CLIENT:
            return self.states.check(header)
        if not header.is_control:
            self.states.check_coordinator_batch(header)
            return None
        marker = _read_marker(header, data, header.position)
        if marker is None:
            raise BrokerError(ErrorCode.INVALID_RECORD, "control batch must contain a transaction marker")
        self.states.check_marker(header, marker)
        return None

    def update(self, header: BatchHeader, data: Buffer, position: int) -> AbortedTransaction | None:
        """Update the state with an appended batch, located in ``data`` at ``position``.

        Returns the transaction that it aborted, if any.
        """
        if not header.attributes & CONTROL_BIT:
            self.states.update(header)
            return None
        marker = _read_marker(header, data, position)
        return None if marker is None else self.states.complete_transaction(header, marker)

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Remove producers idle for ``expiration_ms``; return their number."""
        return self.states.expire(now_ms, expiration_ms)

    # Snapshots.

    @property
    def has_pending_snapshots(self) -> bool:
        return bool(self._pending)

    def take_snapshot(self, offset: int) -> None:
        """Take a snapshot at log end offset ``offset``, to be written by the next flush."""
        if offset > self.latest_snapshot_offset:
            self._pending[offset] = self.states.entries()
            self.latest_snapshot_offset = offset

    def plan_snapshots(self, context: SegmentContext) -> tuple[Callable[[], None] | None, list[int]]:
        """Return the work of writing pending snapshots, and the offsets for ``mark_written``."""
        pending = list(self._pending.items())
        paths = [context.path(offset, SNAPSHOT) for offset, _ in pending]
        files = context.files

        def work() -> None:
            for path, (_, producers) in zip(paths, pending, strict=True):
                try:
                    file = files.open(path, create=True)
                except IsADirectoryError:
                    # The next startup replays more batches instead.
                    log.warning("producer_snapshot_not_written", path=path, reason="is a directory")
                    continue
                try:
                    file.truncate(0)
                    file.append(encode_snapshot(producers))
                    file.sync()
                finally:
                    file.close()

        return work if pending else None, [offset for offset, _ in pending]

    def mark_written(self, offsets: Iterable[int]) -> None:
        for offset in offsets:
            self._pending.pop(offset, None)

    def stale_snapshots(self, offsets: Iterable[int]) -> list[int]:
        """Return the snapshots written during a truncation that must be deleted."""
        return [offset for offset in offsets if offset not in self._pending]

    def truncate(self, context: SegmentContext, segments: Sequence[LogSegment], offset: int) -> None:
        """Rebuild the state after a truncation to ``offset``. Blocks."""
        written = list_snapshot_offsets(context.files.list_names(context.directory))
        if delete_snapshots(context, [snapshot for snapshot in written if snapshot > offset]):
            # If they reappeared after a crash, they would describe removed batches.
            context.files.sync_dir(context.directory)
        kept = [snapshot for snapshot in written if snapshot <= offset]
        pending = {snapshot: entries for snapshot, entries in self._pending.items() if snapshot <= offset}
        latest = max(pending, default=-1)
        if pending and latest >= max(kept, default=-1):
            manager = ProducerStateManager(latest, pending[latest])
            manager.replay(segments, offset)
        else:
            manager = load_producer_state(context, segments, kept, offset)
        self.states = manager.states
        self.latest_snapshot_offset = manager.latest_snapshot_offset
        self._pending = pending | manager._pending

    # Replay.

    def replay(self, segments: Sequence[LogSegment], end_offset: int) -> None:
        """Replay the batches from the latest snapshot up to ``end_offset``. Blocks."""
        from_offset = self.latest_snapshot_offset
        replayed = [segment for segment in segments if segment.base_offset < end_offset]
        snapshot_bases = [segment.base_offset for segment in replayed[-REPLAY_SNAPSHOTS:]]
        first = max(sum(segment.base_offset <= from_offset for segment in replayed) - 1, 0)
        for segment in replayed[first:] if from_offset < end_offset else ():
            if segment.base_offset in snapshot_bases:
                self.take_snapshot(segment.base_offset)
            for header, window in segment.batches(from_offset):
                if header.base_offset >= end_offset:
                    break
                if header.producer_id >= 0 and header.last_offset >= from_offset:
                    self.update(header, window, header.position)


def _read_marker(header: BatchHeader, data: Buffer, position: int) -> EndTransactionMarker | None:
    """Return the transaction marker of a control batch; ``None`` if it was cleaned or is of another type."""
    batch = memoryview(data)[position : position + header.size_bytes]
    try:
        records = decode_batch(batch, header._replace(position=0))
        return read_end_marker(records[0]) if records else None
    except BrokerError:
        return None


def load_producer_state(
    context: SegmentContext, segments: Sequence[LogSegment], snapshot_offsets: Iterable[int], end_offset: int
) -> ProducerStateManager:
    """Return the producer state at log end offset ``end_offset``. Blocks.

    ``segments`` contain all batches up to there. A corrupt snapshot is deleted, and the previous one is used.
    """
    start = segments[0].base_offset if segments else end_offset
    for offset in sorted(snapshot_offsets, reverse=True):
        if start <= offset <= end_offset:
            manager = _load_snapshot(context, offset)
            if manager is not None:
                manager.replay(segments, end_offset)
                return manager
    manager = ProducerStateManager(start)
    manager.replay(segments, end_offset)
    return manager


def _load_snapshot(context: SegmentContext, offset: int) -> ProducerStateManager | None:
    """Return the state in a snapshot; None if there is none, or it is corrupt and therefore deleted."""
    path = context.path(offset, SNAPSHOT)
    try:
        return ProducerStateManager(offset, decode_snapshot(context.files.read_whole(path), path))
    except FileNotFoundError:
        return None
    except StorageError:
        with suppress(FileNotFoundError):
            context.files.remove(path)
        return None


def list_snapshot_offsets(names: Iterable[str]) -> list[int]:
    """Return the offsets of the snapshots among the file names of a log."""
    parsed = map(parse_file_name, names)
    return [name.base_offset for name in parsed if name and name.suffix == SNAPSHOT and not name.mark]


def delete_snapshots(context: SegmentContext, offsets: Iterable[int]) -> int:
    """Delete snapshots; return the number deleted. The caller syncs the directory."""
    removed = 0
    for offset in offsets:
        with suppress(FileNotFoundError, IsADirectoryError):
            context.files.remove(context.path(offset, SNAPSHOT))
            removed += 1
    return removed


# Recovery at startup.


def load_producer_state_before(
    context: SegmentContext, segments: list[LogSegment], first: int, snapshots: list[int]
) -> ProducerStateManager:
    """Return the producer state at the start of a scan, deleting later snapshots, which the scan replaces."""
    if not segments:
        return ProducerStateManager(0)
    base_offset = segments[first].base_offset
    producers = load_producer_state(context, segments[:first], snapshots, base_offset)
    delete_snapshots(context, [offset for offset in snapshots if offset > base_offset])
    return producers


def rebuild_transaction_indexes(
    context: SegmentContext, segments: list[LogSegment], snapshots: list[int]
) -> None:
    """Rebuild invalid transaction indexes."""
    for number, segment in enumerate(segments):
        try:
            segment.aborted()
        except StorageError:
            producers = load_producer_state(context, segments[:number], snapshots, segment.base_offset)
            aborted = [
                transaction
                for header, window in segment.batches()
                if header.producer_id >= 0
                and (transaction := producers.update(header, window, header.position)) is not None
            ]
            segment.replace_aborted(aborted)


def find_stale_snapshots(offsets: Iterable[int], bases: Sequence[int], end_offset: int) -> list[int]:
    """Return the snapshots to delete: those after the log end and those not at a segment's base offset.

    The newest one after the last base offset is kept: a clean shutdown wrote it.
    """
    stale = sorted(set(offsets) - set(bases))
    kept = max((offset for offset in stale if bases[-1] < offset <= end_offset), default=None)
    return [offset for offset in stale if offset != kept]
