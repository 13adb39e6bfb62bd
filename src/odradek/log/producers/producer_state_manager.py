"""The producers of a log, live, and the snapshots that bring them back.

Their state is what the batches of the log say, from its first one on. A snapshot is taken wherever a segment
begins and when the log is closed: a list of what they are at that offset, which the next flush writes, once
the batches before it are on the disk. So where a log is scanned from, a snapshot is, and none ever tells of
batches that a crash can take back. A start reads the newest one that is whole, and the headers of the batches
behind it: after a clean stop there are none.

Invariant: ``states`` is that of all batches up to the end of the log.
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

log = events.logger("producer_history")

SNAPSHOTS_READ_BACK: Final = 2
"""Of the segments that are read again for want of a snapshot, so many of the last get one, as in Kafka."""


class ProducerStateManager:
    """``newest_offset`` is that of the newest snapshot, whether it is on file yet or due."""

    __slots__ = ("_due", "newest_offset", "states")

    def __init__(self, offset: int, producers: Iterable[ProducerStateEntry] = ()) -> None:
        """Begin with what a snapshot at ``offset`` says, or where a log begins with nothing."""
        self.states = ProducerStates(producers)
        self.newest_offset = offset
        self._due: dict[int, list[ProducerStateEntry]] = {}

    # Batches.

    def check(self, header: BatchHeader, data: Buffer, origin: AppendOrigin) -> BatchMetadata | None:
        """Judge a batch that is to be appended; give the earlier append that it repeats, if it does."""
        if origin is AppendOrigin.CLIENT:
            return self.states.check(header)
        if not header.is_control:
            self.states.check_unnumbered(header)
            return None
        marker = _marker_of(header, data, header.position)
        if marker is None:
            raise BrokerError(ErrorCode.INVALID_RECORD, "a control batch that ends no transaction")
        self.states.check_marker(header, marker)
        return None

    def appended(self, header: BatchHeader, data: Buffer, position: int) -> AbortedTransaction | None:
        """A batch with a producer id, which lies in ``data`` at ``position``, is in the log.

        Gives the transaction that it aborted, if it did.
        """
        if not header[6] & CONTROL_BIT:
            self.states.appended(header)
            return None
        marker = _marker_of(header, data, position)
        return None if marker is None else self.states.ended(header, marker)

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers that have been silent for so long; give how many."""
        return self.states.expire(now_ms, expiration_ms)

    # Snapshots.

    @property
    def is_due(self) -> bool:
        return bool(self._due)

    def take_snapshot(self, offset: int) -> None:
        """Keep the state as it is, to be written by the next flush: the log ends at ``offset``."""
        if offset > self.newest_offset:
            self._due[offset] = self.states.entries()
            self.newest_offset = offset

    def plan(self, place: SegmentContext) -> tuple[Callable[[], None] | None, list[int]]:
        """The work of writing what is due, and the offsets to give to ``written`` after it."""
        due = list(self._due.items())
        paths = [place.path(offset, SNAPSHOT) for offset, _ in due]
        files = place.files

        def work() -> None:
            for path, (_, producers) in zip(paths, due, strict=True):
                try:
                    file = files.open(path, create=True)
                except IsADirectoryError:
                    # The next start reads more batches instead.
                    log.warning("snapshot_not_written", path=path, reason="a directory has its name")
                    continue
                try:
                    file.truncate(0)
                    file.append(encode_snapshot(producers))
                    file.sync()
                finally:
                    file.close()

        return work if due else None, [offset for offset, _ in due]

    def written(self, offsets: Iterable[int]) -> None:
        for offset in offsets:
            self._due.pop(offset, None)

    def strays_of(self, offsets: Iterable[int]) -> list[int]:
        """Of what was written while the log was cut, that which must not stay."""
        return [offset for offset in offsets if offset not in self._due]

    def cut(self, place: SegmentContext, segments: Sequence[LogSegment], offset: int) -> None:
        """The log was cut and ends at ``offset``: know what the batches before it say. Waits."""
        on_file = snapshot_offsets_in(place.files.list_names(place.directory))
        if remove_snapshots(place, [one for one in on_file if one > offset]):
            # Were they to come back after a crash, they would speak of batches that are no more.
            place.files.sync_dir(place.directory)
        kept = [one for one in on_file if one <= offset]
        due = {one: producers for one, producers in self._due.items() if one <= offset}
        newest = max(due, default=-1)
        if due and newest >= max(kept, default=-1):
            history = ProducerStateManager(newest, due[newest])
            history.read(segments, offset)
        else:
            history = load_producer_state(place, segments, kept, offset)
        self.states = history.states
        self.newest_offset = history.newest_offset
        self._due = due | history._due

    # Reading back.

    def read(self, segments: Sequence[LogSegment], end_offset: int) -> None:
        """Go over the batches from the newest snapshot on, up to ``end_offset``. Waits."""
        from_offset = self.newest_offset
        behind = [segment for segment in segments if segment.base_offset < end_offset]
        bases = [segment.base_offset for segment in behind[-SNAPSHOTS_READ_BACK:]]
        first = max(sum(segment.base_offset <= from_offset for segment in behind) - 1, 0)
        for segment in behind[first:] if from_offset < end_offset else ():
            if segment.base_offset in bases:
                self.take_snapshot(segment.base_offset)
            for header, window in segment.batches(from_offset):
                if header.base_offset >= end_offset:
                    break
                if header.producer_id >= 0 and header.last_offset >= from_offset:
                    self.appended(header, window, header.position)


def _marker_of(header: BatchHeader, data: Buffer, position: int) -> EndTransactionMarker | None:
    """The marker in a control batch; ``None`` if there is none: it was cleaned, or is of another kind."""
    batch = memoryview(data)[position : position + header.size_bytes]
    try:
        records = decode_batch(batch, header._replace(position=0))
        return read_end_marker(records[0]) if records else None
    except BrokerError:
        return None


def load_producer_state(
    place: SegmentContext, segments: Sequence[LogSegment], snapshot_offsets: Iterable[int], end_offset: int
) -> ProducerStateManager:
    """The producers as they were when the log ended at ``end_offset``. Waits.

    ``segments`` hold all batches up to there. A snapshot that is not whole is removed, and the one before it
    is used.
    """
    start = segments[0].base_offset if segments else end_offset
    for offset in sorted(snapshot_offsets, reverse=True):
        if start <= offset <= end_offset:
            path = place.path(offset, SNAPSHOT)
            with suppress(FileNotFoundError):
                try:
                    history = ProducerStateManager(
                        offset, decode_snapshot(place.files.read_whole(path), path)
                    )
                except StorageError:
                    place.files.remove(path)
                    continue
                history.read(segments, end_offset)
                return history
    history = ProducerStateManager(start)
    history.read(segments, end_offset)
    return history


def snapshot_offsets_in(names: Iterable[str]) -> list[int]:
    """Offsets of the snapshots among the files of a log."""
    parsed = map(parse_file_name, names)
    return [one.base_offset for one in parsed if one and one.suffix == SNAPSHOT and not one.mark]


def remove_snapshots(place: SegmentContext, offsets: Iterable[int]) -> int:
    """Remove snapshots; give how many there were. The names want syncing then."""
    removed = 0
    for offset in offsets:
        with suppress(FileNotFoundError, IsADirectoryError):
            place.files.remove(place.path(offset, SNAPSHOT))
            removed += 1
    return removed
