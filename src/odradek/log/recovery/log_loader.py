"""What start-up does with one log's directory.

After a clean stop nothing is read but names, sizes and the end of the last segment. After any other stop, and
where that end cannot be read or is not where the stop left it, the segments from the recovery point on are
scanned batch by batch: the first bad batch and all after it go, and so do later segments, or those that do
not follow on the one before; indexes are built anew. Either way files left over from an interrupted change
are brought to an end first:

- ``.deleted`` was on its way out: it goes;
- ``.cleaned`` was not finished: it goes, and so do ``.swap`` files at its offset or above, which belong to
  the same unfinished split;
- ``.swap`` was finished: it takes its place, and the segments it covers go;
- an index without a log file goes; a log file without a sound index gets one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from odradek.log.checkpoints import LEADER_EPOCH_CHECKPOINT
from odradek.log.disk_health import DISK_FULL_ERRORS
from odradek.log.leader_epoch_cache import EpochEntry, LeaderEpochCache, parse_epochs
from odradek.log.log import Log, LogState
from odradek.log.log_config import LogConfig
from odradek.log.producers.producer_state_manager import (
    ProducerStateManager,
    load_producer_state,
    remove_snapshots,
)
from odradek.log.recovery.producer_recovery import mend_aborted, producers_before, strays_among
from odradek.log.segments.active_segment import ActiveSegment
from odradek.log.segments.log_segment import LogSegment, OpenSegments, SegmentContext
from odradek.log.segments.segment_format import (
    CLEANED,
    DELETED,
    INDEX_SUFFIXES,
    LOG,
    OFFSET_INDEX,
    OFFSETS,
    SEGMENT_SUFFIXES,
    SNAPSHOT,
    SWAP,
    TIME_INDEX,
    TIMES,
    TRANSACTION_INDEX,
    FileName,
    Scanned,
    file_name,
    parse_file_name,
    walk_headers,
)
from odradek.log.segments.transaction_index import AbortedTransaction
from odradek.model.errors import BrokerError, StorageError
from odradek.model.ids import TopicPartition
from odradek.ports.entropy import Entropy
from odradek.ports.files import FileSystem
from odradek.records.layout import BatchHeader

_ANYWHERE: Final = 2**63 - 1


class LogLoadContext:
    """How a log is to be opened: what was known of it before, and who wants to hear of it."""

    __slots__ = (
        "entropy",
        "files",
        "had_clean_shutdown",
        "log_start_offset",
        "on_failure",
        "on_roll",
        "opened",
        "recovery_point",
    )

    def __init__(
        self,
        files: FileSystem,
        entropy: Entropy,
        opened: OpenSegments,
        *,
        had_clean_shutdown: bool,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        on_roll: Callable[[Log], None] = lambda _: None,
        on_failure: Callable[[StorageError], None] = lambda _: None,
    ) -> None:
        self.files = files
        self.entropy = entropy
        self.opened = opened
        self.had_clean_shutdown = had_clean_shutdown
        self.recovery_point = recovery_point
        self.log_start_offset = log_start_offset
        self.on_roll = on_roll
        self.on_failure = on_failure


class RecoveryResult:
    """What a scan had to do to a log."""

    __slots__ = (
        "dropped_bytes",
        "dropped_segments",
        "problem",
        "scanned_bytes",
        "scanned_segments",
        "truncated_bytes",
    )

    def __init__(self) -> None:
        self.scanned_segments = 0
        self.scanned_bytes = 0
        self.truncated_bytes = 0
        self.dropped_bytes = 0
        self.dropped_segments = 0
        self.problem: str | None = None


def create_log(
    topic_partition: TopicPartition, directory: str, config: LogConfig, how: LogLoadContext
) -> Log:
    """Begin a log in a new directory. Its name is durable after the first flush."""
    how.files.make_directories(directory)
    place = _place(directory, config, how)
    segment = ActiveSegment.create(place, how.log_start_offset)
    segment.close()
    resting = LogSegment(place, how.log_start_offset, 0)
    start = how.log_start_offset
    state = LogState([resting], LeaderEpochCache(), (), ProducerStateManager(start), start, start, start)
    return _log(topic_partition, place, config, state, how, is_new=True)


def open_log(
    topic_partition: TopicPartition,
    directory: str,
    config: LogConfig,
    how: LogLoadContext,
    recovered: RecoveryResult | None = None,
) -> Log:
    """Open the log in a directory and mend it where it must be. Waits."""
    recovered = recovered or RecoveryResult()
    place = _place(directory, config, how)
    place.opened = OpenSegments()  # the shared one is not for threads, and none stays open
    segments, snapshots = _load_segments(place, how.files)
    epochs, epochs_written = _read_epochs(place, segments)
    is_new = False
    end_offset = _end_as_left(segments, how)
    is_as_left = end_offset is not None
    if end_offset is not None:
        producers = load_producer_state(place, segments, snapshots, end_offset)
    else:
        # The one that ends at the recovery point too: its batches were flushed before its indexes.
        first = max(sum(segment.base_offset < how.recovery_point for segment in segments) - 1, 0)
        producers = producers_before(place, segments, first, snapshots)
        holes_end = _ANYWHERE if config.is_compacted else how.recovery_point
        end_offset = _recover(segments, first, holes_end, epochs, producers, recovered)
    log_start_offset = how.log_start_offset
    if is_as_left and end_offset is not None and how.recovery_point == end_offset < log_start_offset:
        # All of the log is there, and none starts above its end: it is the checkpoint that is wrong.
        recovered.problem = f"{directory} ends at {end_offset}: no start at {log_start_offset} can be true"
        log_start_offset = 0
    if end_offset is None or end_offset < log_start_offset:
        recovered.dropped_segments += len(segments)
        recovered.dropped_bytes += sum(segment.size for segment in segments)
        _remove_all(segments)
        ActiveSegment.create(place, log_start_offset).close()
        segments, end_offset = [LogSegment(place, log_start_offset, 0)], log_start_offset
        epochs.clear()
        remove_snapshots(place, snapshots)
        producers, snapshots = ProducerStateManager(log_start_offset), []
        is_new = True
    mend_aborted(place, segments, snapshots)
    strays = strays_among(snapshots, [segment.base_offset for segment in segments], end_offset)
    remove_snapshots(place, strays)
    if recovered.dropped_segments or (strays and strays[-1] > end_offset):
        # Were they to come back after a crash, they would stand behind what is written from here on.
        how.files.sync_dir(directory)
    start_offset = max(log_start_offset, segments[0].base_offset)
    epochs.truncate_from_end(end_offset)
    epochs.truncate_from_start(start_offset)
    recovery_point = end_offset if is_as_left else min(how.recovery_point, end_offset)
    place.opened.let_all_go()
    place.opened = how.opened
    state = LogState(segments, epochs, epochs_written, producers, start_offset, end_offset, recovery_point)
    # Nobody knows which names were on the disk when a process ended: the first flush brings them there.
    return _log(topic_partition, place, config, state, how, is_new=is_new or not is_as_left)


def _place(directory: str, config: LogConfig, how: LogLoadContext) -> SegmentContext:
    return SegmentContext(
        how.files, directory, how.opened, config.index_interval_bytes, config.segment_index_bytes
    )


def _log(
    topic_partition: TopicPartition,
    place: SegmentContext,
    config: LogConfig,
    state: LogState,
    how: LogLoadContext,
    *,
    is_new: bool = False,
) -> Log:
    return Log(
        topic_partition,
        place,
        config,
        state,
        entropy=how.entropy,
        is_new=is_new,
        on_roll=how.on_roll,
        on_failure=how.on_failure,
    )


def _end_as_left(segments: list[LogSegment], how: LogLoadContext) -> int | None:
    """Where the log ends, if a clean stop left it so; ``None`` if it has to be scanned.

    A clean stop wrote down the end as the recovery point. A log whose end is elsewhere, or cannot be read,
    has changed since.
    """
    if not how.had_clean_shutdown or not segments:
        return None
    try:
        end_offset = _end_of(segments[-1])
    except BrokerError:
        return None
    return end_offset if how.recovery_point in (0, end_offset) else None


def _end_of(segment: LogSegment) -> int:
    return segment.next_offset() if segment.size else segment.base_offset


def _remove_all(segments: list[LogSegment]) -> None:
    for segment in reversed(segments):
        segment.remove()


# Files.


def _load_segments(place: SegmentContext, files: FileSystem) -> tuple[list[LogSegment], list[int]]:
    """The segments that are there, in order, and offsets of snapshots, once leftovers are dealt with."""
    sizes = files.list_files(place.directory)
    names = {name: parsed for name in sizes if (parsed := parse_file_name(name))}
    if any(parsed.mark for parsed in names.values()):
        _finish_changes(place, files, names)
        sizes = files.list_files(place.directory)
        names = {name: parsed for name in sizes if (parsed := parse_file_name(name))}
    segments = []
    bases = {parsed.base_offset for parsed in names.values() if parsed.suffix == LOG}
    for name, parsed in names.items():
        if parsed.suffix in INDEX_SUFFIXES and parsed.base_offset not in bases:
            files.remove(f"{place.directory}/{name}")
        elif parsed.suffix == LOG:
            segments.append(LogSegment(place, parsed.base_offset, sizes[name]))
    segments.sort(key=lambda segment: segment.base_offset)
    for segment in segments:
        _check_index_sizes(segment, sizes)
        if file_name(segment.base_offset, TRANSACTION_INDEX) not in sizes:
            segment.has_no_aborted()
    snapshots = (parsed for parsed in names.values() if parsed.suffix == SNAPSHOT and not parsed.mark)
    return segments, [parsed.base_offset for parsed in snapshots]


def _check_index_sizes(segment: LogSegment, sizes: dict[str, int]) -> None:
    prefix = f"{segment.base_offset:020d}"
    offsets, times = sizes.get(prefix + OFFSET_INDEX, -1), sizes.get(prefix + TIME_INDEX, -1)
    if offsets % OFFSETS.entry_bytes or times % TIMES.entry_bytes:
        segment.rebuild_indexes()
        segment.close()


def _finish_changes(place: SegmentContext, files: FileSystem, names: dict[str, FileName]) -> None:
    cleaned = [parsed.base_offset for parsed in names.values() if parsed.mark == CLEANED]
    first_cleaned = min(cleaned, default=None)
    swaps = {}
    # What tells that .swap files are unfinished goes after them, should this be interrupted.
    for name, parsed in sorted(names.items(), key=lambda item: item[1].mark == CLEANED):
        unfinished = first_cleaned is not None and parsed.base_offset >= first_cleaned
        if parsed.mark in {DELETED, CLEANED} or (parsed.mark == SWAP and unfinished):
            files.remove(f"{place.directory}/{name}")
        elif parsed.mark == SWAP:
            swaps[name] = parsed
    if swaps:
        _finish_swaps(place, files, names, swaps)


def _finish_swaps(
    place: SegmentContext, files: FileSystem, names: dict[str, FileName], swaps: dict[str, FileName]
) -> None:
    """Remove the segments that finished ones replace, then give those their names."""
    low, high = None, -1
    for name, parsed in swaps.items():
        if parsed.suffix == LOG:
            low = parsed.base_offset if low is None else min(low, parsed.base_offset)
            # One without batches replaces at least what begins where it does.
            end_offset = _end_of_file(files, f"{place.directory}/{name}", parsed.base_offset)
            high = max(high, end_offset, parsed.base_offset + 1)
    for name, parsed in names.items():
        is_replaced = low is not None and low <= parsed.base_offset < high
        if is_replaced and not parsed.mark and parsed.suffix in SEGMENT_SUFFIXES:
            files.remove(f"{place.directory}/{name}")
    # Log files first: should this be interrupted, indexes in the place of a .swap log file would be removed.
    whole = {parsed.base_offset for parsed in swaps.values() if parsed.suffix == LOG}
    for name, parsed in sorted(swaps.items(), key=lambda item: item[1].suffix != LOG):
        own_name = name.removesuffix(SWAP)
        if parsed.base_offset not in whole and own_name in names:
            files.remove(f"{place.directory}/{name}")  # its log file is gone: the compaction was given up
        else:
            files.rename(f"{place.directory}/{name}", f"{place.directory}/{own_name}")
    files.sync_dir(place.directory)


def _end_of_file(files: FileSystem, path: str, base_offset: int) -> int:
    file = files.open(path, writable=False)
    view = file.map()
    file.close()
    end_offset = base_offset
    for header in walk_headers(view):
        end_offset = header.next_offset
    return end_offset


# Leader epochs.


def _read_epochs(
    place: SegmentContext, segments: list[LogSegment]
) -> tuple[LeaderEpochCache, tuple[EpochEntry, ...]]:
    """The epochs of the log, and those that its file has."""
    path = f"{place.directory}/{LEADER_EPOCH_CHECKPOINT}"
    try:
        epochs = parse_epochs(place.files.read_whole(path).decode("ascii", "replace"), path)
    except FileNotFoundError:
        return LeaderEpochCache(), ()
    except StorageError:
        epochs = LeaderEpochCache()
        for segment in segments:
            for header in segment.headers():
                _learn(epochs, header)
        return epochs, ()
    return epochs, epochs.entries


def _learn(epochs: LeaderEpochCache, header: BatchHeader) -> None:
    if header.magic >= 2 and header.leader_epoch > epochs.latest:
        epochs.assign(header.leader_epoch, header.base_offset)


# The scan.


def _recover(
    segments: list[LogSegment],
    first: int,
    holes_end: int,
    epochs: LeaderEpochCache,
    producers: ProducerStateManager,
    recovered: RecoveryResult,
) -> int | None:
    """Scan what may not have reached the disk, cut off what did not, and give the end of the log.

    A machine that loses power may have kept a segment and lost the end of the one before it, at a place that
    looks whole. Such a segment goes too: a log is a prefix of what was written, or a replica would differ
    from its leader for good. Up to ``holes_end`` compaction may have made holes, and nothing was lost.
    """
    if not segments:
        return None
    epochs.truncate_from_end(segments[first].base_offset)
    end_offset = segments[first].base_offset
    for number in range(first, len(segments)):
        segment = segments[number]
        if segment.base_offset < end_offset or segment.base_offset > max(end_offset, holes_end):
            recovered.problem = f"{segment.path(LOG)} does not follow on offset {end_offset}"
            _drop_from(segments, number, recovered)
            break
        scanned, aborted = _scan(segment, epochs, producers)
        end_offset = scanned.next_offset
        recovered.scanned_segments += 1
        recovered.scanned_bytes += segment.size
        recovered.truncated_bytes += _settle(segment, scanned, aborted)
        if scanned.problem is not None:
            recovered.problem = f"{segment.path(LOG)} at position {scanned.valid_end}: {scanned.problem}"
            _drop_from(segments, number + 1, recovered)
            break
    return end_offset


def _scan(
    segment: LogSegment, epochs: LeaderEpochCache, producers: ProducerStateManager
) -> tuple[Scanned, list[AbortedTransaction]]:
    aborted: list[AbortedTransaction] = []

    def learn(header: BatchHeader, window: memoryview) -> None:
        _learn(epochs, header)
        if header.producer_id >= 0:
            found = producers.appended(header, window, header.position)
            if found is not None:
                aborted.append(found)

    producers.take_snapshot(segment.base_offset)
    return segment.scan(learn), aborted


def _drop_from(segments: list[LogSegment], number: int, recovered: RecoveryResult) -> None:
    recovered.dropped_segments = len(segments) - number
    recovered.dropped_bytes = sum(segment.size for segment in segments[number:])
    _remove_all(segments[number:])
    del segments[number:]


def _settle(segment: LogSegment, scanned: Scanned, aborted: list[AbortedTransaction]) -> int:
    """Keep of a segment what a scan found good; give the number of bytes that go.

    Nothing is synced: until a flush has done that, the next start scans the segment again. A full disk does
    not end the start, for nobody else would free it: indexes for which there is no room stay in memory.
    """
    surplus = segment.size - scanned.valid_end
    if surplus:
        file = segment.context.files.open(segment.path(LOG))
        file.truncate(scanned.valid_end)
        file.close()
        segment.size = scanned.valid_end
    try:
        segment.use_indexes(scanned.indexes, durable=False)
        segment.use_aborted(aborted)
    except OSError as error:
        if error.errno not in DISK_FULL_ERRORS:
            raise
        segment.use_without_room(scanned.indexes, aborted)
    segment.close()
    return surplus
