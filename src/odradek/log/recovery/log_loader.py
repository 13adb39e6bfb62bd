"""Loading of a log at startup.

After a clean shutdown only names, sizes and the end of the last segment are read. After an unclean shutdown,
or if that end is unreadable or differs from the recovery point, the segments from the recovery point on are
scanned batch by batch: the log is truncated at the first invalid batch or at a segment that does not follow
the one before, and indexes are rebuilt. In both cases interrupted file operations are completed first:

- ``.deleted`` files are deleted;
- ``.cleaned`` files are unfinished and deleted, with ``.swap`` files at the same or higher offsets, which
  belong to the same unfinished split;
- ``.swap`` files are complete: they replace the segments they cover;
- an index without a log file is deleted; a missing or invalid index is rebuilt.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final

from odradek.log.checkpoints import LEADER_EPOCH_CHECKPOINT
from odradek.log.disk_health import DISK_FULL_ERRORS
from odradek.log.leader_epoch_cache import EpochEntry, LeaderEpochCache, parse_epochs
from odradek.log.log import Log
from odradek.log.log_config import LogConfig
from odradek.log.log_state import LogState
from odradek.log.producers.producer_state_manager import (
    ProducerStateManager,
    delete_snapshots,
    find_stale_snapshots,
    load_producer_state,
    load_producer_state_before,
    rebuild_transaction_indexes,
)
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

_NO_LIMIT: Final = 2**63 - 1


class LogLoadContext:
    """Dependencies, checkpointed offsets and callbacks for loading a log."""

    __slots__ = (
        "entropy",
        "files",
        "had_clean_shutdown",
        "log_start_offset",
        "on_failure",
        "on_roll",
        "on_truncate",
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
        on_truncate: Callable[[Log], None] = lambda _: None,
        on_failure: Callable[[StorageError], None] = lambda _: None,
    ) -> None:
        self.files = files
        self.entropy = entropy
        self.opened = opened
        self.had_clean_shutdown = had_clean_shutdown
        self.recovery_point = recovery_point
        self.log_start_offset = log_start_offset
        self.on_roll = on_roll
        self.on_truncate = on_truncate
        self.on_failure = on_failure


class RecoveryResult:
    """Result of the recovery of a log."""

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
    topic_partition: TopicPartition, directory: str, config: LogConfig, context: LogLoadContext
) -> Log:
    """Create a log in a new directory. The directory is durable after the first flush."""
    context.files.make_directories(directory)
    segment_context = _segment_context(directory, config, context)
    segment = ActiveSegment.create(segment_context, context.log_start_offset)
    segment.close()
    sealed = LogSegment(segment_context, context.log_start_offset, 0)
    start = context.log_start_offset
    state = LogState([sealed], LeaderEpochCache(), (), ProducerStateManager(start), start, start, start)
    return _log(topic_partition, segment_context, config, state, context, is_new=True)


def open_log(
    topic_partition: TopicPartition,
    directory: str,
    config: LogConfig,
    context: LogLoadContext,
    recovered: RecoveryResult | None = None,
) -> Log:
    """Open the log in a directory, recovering it if needed. Blocks."""
    recovered = recovered or RecoveryResult()
    segment_context = _segment_context(directory, config, context)
    segment_context.opened = OpenSegments()  # the shared one is not thread-safe; nothing stays open here
    segments, snapshots = _load_segments(segment_context, context.files)
    epochs, checkpointed_epochs = _read_epochs(segment_context, segments)
    is_new = False
    end_offset = _clean_shutdown_end(segments, context)
    is_clean = end_offset is not None
    if end_offset is not None:
        producers = load_producer_state(segment_context, segments, snapshots, end_offset)
    else:
        # Includes a segment that ends at the recovery point: its batches were synced before its indexes.
        first = max(sum(segment.base_offset < context.recovery_point for segment in segments) - 1, 0)
        _rebuild_stale_epochs(epochs, segments[:first])
        producers = load_producer_state_before(segment_context, segments, first, snapshots)
        holes_end = _NO_LIMIT if config.is_compacted else context.recovery_point
        end_offset = _recover(segments, first, holes_end, epochs, producers, recovered)
    log_start_offset = context.log_start_offset
    if is_clean and end_offset is not None and context.recovery_point == end_offset < log_start_offset:
        # The log is complete, and no log starts above its end: the checkpoint is wrong.
        recovered.problem = f"{directory} ends at {end_offset}, ignoring log start offset {log_start_offset}"
        log_start_offset = 0
    if end_offset is None or end_offset < log_start_offset:
        recovered.dropped_segments += len(segments)
        recovered.dropped_bytes += sum(segment.size for segment in segments)
        _remove_all(segments)
        ActiveSegment.create(segment_context, log_start_offset).close()
        segments, end_offset = [LogSegment(segment_context, log_start_offset, 0)], log_start_offset
        epochs.clear()
        delete_snapshots(segment_context, snapshots)
        producers, snapshots = ProducerStateManager(log_start_offset), []
        is_new = True
    rebuild_transaction_indexes(segment_context, segments, snapshots)
    stale = find_stale_snapshots(snapshots, [segment.base_offset for segment in segments], end_offset)
    delete_snapshots(segment_context, stale)
    if recovered.dropped_segments or (stale and stale[-1] > end_offset):
        # If they reappeared after a crash, they would follow the records appended from now on.
        context.files.sync_dir(directory)
    start_offset = max(log_start_offset, segments[0].base_offset)
    epochs.truncate_from_end(end_offset)
    epochs.truncate_from_start(start_offset)
    recovery_point = end_offset if is_clean else min(context.recovery_point, end_offset)
    segment_context.opened.release_all()
    segment_context.opened = context.opened
    state = LogState(
        segments, epochs, checkpointed_epochs, producers, start_offset, end_offset, recovery_point
    )
    # It is unknown which names were synced when the process ended: the first flush syncs them.
    return _log(topic_partition, segment_context, config, state, context, is_new=is_new or not is_clean)


def _segment_context(directory: str, config: LogConfig, context: LogLoadContext) -> SegmentContext:
    return SegmentContext(
        context.files, directory, context.opened, config.index_interval_bytes, config.segment_index_bytes
    )


def _log(
    topic_partition: TopicPartition,
    segment_context: SegmentContext,
    config: LogConfig,
    state: LogState,
    context: LogLoadContext,
    *,
    is_new: bool = False,
) -> Log:
    return Log(
        topic_partition,
        segment_context,
        config,
        state,
        entropy=context.entropy,
        is_new=is_new,
        on_roll=context.on_roll,
        on_truncate=context.on_truncate,
        on_failure=context.on_failure,
    )


def _clean_shutdown_end(segments: list[LogSegment], context: LogLoadContext) -> int | None:
    """Return the log end offset after a clean shutdown; ``None`` if the log must be scanned.

    A clean shutdown checkpoints the log end offset as the recovery point. A log with another or an unreadable
    end was modified since.
    """
    if not context.had_clean_shutdown or not segments:
        return None
    try:
        end_offset = _end_of(segments[-1])
    except BrokerError:
        return None
    return end_offset if context.recovery_point in (0, end_offset) else None


def _end_of(segment: LogSegment) -> int:
    return segment.next_offset() if segment.size else segment.base_offset


def _remove_all(segments: list[LogSegment]) -> None:
    for segment in reversed(segments):
        segment.remove()


# Files.


def _load_segments(segment_context: SegmentContext, files: FileSystem) -> tuple[list[LogSegment], list[int]]:
    """Complete interrupted file operations; return the segments in order and the offsets of snapshots."""
    sizes = files.list_files(segment_context.directory)
    names = {name: parsed for name in sizes if (parsed := parse_file_name(name))}
    if any(parsed.mark for parsed in names.values()):
        _complete_file_operations(segment_context, files, names)
        sizes = files.list_files(segment_context.directory)
        names = {name: parsed for name in sizes if (parsed := parse_file_name(name))}
    segments = []
    bases = {parsed.base_offset for parsed in names.values() if parsed.suffix == LOG}
    for name, parsed in names.items():
        if parsed.suffix in INDEX_SUFFIXES and parsed.base_offset not in bases:
            files.remove(f"{segment_context.directory}/{name}")
        elif parsed.suffix == LOG:
            segments.append(LogSegment(segment_context, parsed.base_offset, sizes[name]))
    segments.sort(key=lambda segment: segment.base_offset)
    for segment in segments:
        _check_index_sizes(segment, sizes)
        if file_name(segment.base_offset, TRANSACTION_INDEX) not in sizes:
            segment.mark_no_aborted()
    snapshots = (parsed for parsed in names.values() if parsed.suffix == SNAPSHOT and not parsed.mark)
    return segments, [parsed.base_offset for parsed in snapshots]


def _check_index_sizes(segment: LogSegment, sizes: dict[str, int]) -> None:
    prefix = f"{segment.base_offset:020d}"
    offsets, times = sizes.get(prefix + OFFSET_INDEX, -1), sizes.get(prefix + TIME_INDEX, -1)
    if offsets % OFFSETS.entry_bytes or times % TIMES.entry_bytes:
        segment.rebuild_indexes()
        segment.close()


def _complete_file_operations(
    segment_context: SegmentContext, files: FileSystem, names: dict[str, FileName]
) -> None:
    cleaned = [parsed.base_offset for parsed in names.values() if parsed.mark == CLEANED]
    first_cleaned = min(cleaned, default=None)
    swaps = {}
    # .cleaned files mark .swap files as unfinished: they are deleted last, in case of an interruption.
    for name, parsed in sorted(names.items(), key=lambda item: item[1].mark == CLEANED):
        unfinished = first_cleaned is not None and parsed.base_offset >= first_cleaned
        if parsed.mark in {DELETED, CLEANED} or (parsed.mark == SWAP and unfinished):
            files.remove(f"{segment_context.directory}/{name}")
        elif parsed.mark == SWAP:
            swaps[name] = parsed
    if swaps:
        _complete_swaps(segment_context, files, names, swaps)


def _complete_swaps(
    segment_context: SegmentContext, files: FileSystem, names: dict[str, FileName], swaps: dict[str, FileName]
) -> None:
    """Delete the replaced segments, then rename the ``.swap`` files."""
    first_offset, end_of_swaps = None, -1
    for name, parsed in swaps.items():
        if parsed.suffix == LOG:
            first_offset = (
                parsed.base_offset if first_offset is None else min(first_offset, parsed.base_offset)
            )
            # An empty segment replaces at least the one with the same base offset.
            end_offset = _end_of_file(files, f"{segment_context.directory}/{name}", parsed.base_offset)
            end_of_swaps = max(end_of_swaps, end_offset, parsed.base_offset + 1)
    for name, parsed in names.items():
        is_replaced = first_offset is not None and first_offset <= parsed.base_offset < end_of_swaps
        if is_replaced and not parsed.mark and parsed.suffix in SEGMENT_SUFFIXES:
            files.remove(f"{segment_context.directory}/{name}")
    # Log files first: after an interruption, indexes at the offset of a .swap log file would be deleted.
    complete = {parsed.base_offset for parsed in swaps.values() if parsed.suffix == LOG}
    for name, parsed in sorted(swaps.items(), key=lambda item: item[1].suffix != LOG):
        own_name = name.removesuffix(SWAP)
        if parsed.base_offset not in complete and own_name in names:
            # Its log file is gone: the cleaning was aborted.
            files.remove(f"{segment_context.directory}/{name}")
        else:
            files.rename(f"{segment_context.directory}/{name}", f"{segment_context.directory}/{own_name}")
    files.sync_dir(segment_context.directory)


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
    segment_context: SegmentContext, segments: list[LogSegment]
) -> tuple[LeaderEpochCache, tuple[EpochEntry, ...]]:
    """Return the leader epochs of the log, and those in its checkpoint file."""
    path = f"{segment_context.directory}/{LEADER_EPOCH_CHECKPOINT}"
    try:
        epochs = parse_epochs(segment_context.files.read_whole(path).decode("ascii", "replace"), path)
    except FileNotFoundError:
        return LeaderEpochCache(), ()
    except StorageError:
        epochs = LeaderEpochCache()
        _add_epochs_of(epochs, segments)
        return epochs, ()
    return epochs, epochs.entries


def _rebuild_stale_epochs(epochs: LeaderEpochCache, segments: list[LogSegment]) -> None:
    """Rebuild the leader epochs of segments that are not scanned, if the last batch contradicts them.

    The checkpoint file may be older than these segments, if they were appended after a truncation, below a
    recovery point from before it. Then it lacks at least the epoch of the last batch.
    """
    last = next((segment for segment in reversed(segments) if segment.size), None)
    if last is not None:
        with suppress(BrokerError):  # a corrupt batch below the recovery point fails only its reads
            header = last.last_header()
            if 0 <= header.leader_epoch != epochs.epoch_of(header.base_offset):
                epochs.clear()
                _add_epochs_of(epochs, segments)


def _add_epochs_of(epochs: LeaderEpochCache, segments: list[LogSegment]) -> None:
    for segment in segments:
        for header in segment.headers():
            _update_epochs(epochs, header)


def _update_epochs(epochs: LeaderEpochCache, header: BatchHeader) -> None:
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
    """Scan segments that may not be synced, truncate at the first problem, and return the log end offset.

    A power loss may keep a segment and lose the end of the one before it, at a batch boundary. Such a segment
    is removed too: a log must be a prefix of what was written, or a replica would diverge from its leader
    permanently. Up to ``holes_end``, gaps come from compaction, and nothing was lost.
    """
    if not segments:
        return None
    epochs.truncate_from_end(segments[first].base_offset)
    end_offset = segments[first].base_offset
    for number in range(first, len(segments)):
        segment = segments[number]
        if segment.base_offset < end_offset or segment.base_offset > max(end_offset, holes_end):
            recovered.problem = f"{segment.path(LOG)} does not continue at offset {end_offset}"
            _remove_from(segments, number, recovered)
            break
        scanned, aborted = _scan(segment, epochs, producers)
        end_offset = scanned.next_offset
        recovered.scanned_segments += 1
        recovered.scanned_bytes += segment.size
        recovered.truncated_bytes += _truncate_to_valid(segment, scanned, aborted)
        if scanned.problem is not None:
            recovered.problem = f"{segment.path(LOG)} at position {scanned.valid_end}: {scanned.problem}"
            _remove_from(segments, number + 1, recovered)
            break
    return end_offset


def _scan(
    segment: LogSegment, epochs: LeaderEpochCache, producers: ProducerStateManager
) -> tuple[Scanned, list[AbortedTransaction]]:
    aborted: list[AbortedTransaction] = []

    def on_batch(header: BatchHeader, window: memoryview) -> None:
        _update_epochs(epochs, header)
        if header.producer_id >= 0:
            transaction = producers.update(header, window, header.position)
            if transaction is not None:
                aborted.append(transaction)

    producers.take_snapshot(segment.base_offset)
    return segment.scan(on_batch), aborted


def _remove_from(segments: list[LogSegment], number: int, recovered: RecoveryResult) -> None:
    recovered.dropped_segments = len(segments) - number
    recovered.dropped_bytes = sum(segment.size for segment in segments[number:])
    _remove_all(segments[number:])
    del segments[number:]


def _truncate_to_valid(segment: LogSegment, scanned: Scanned, aborted: list[AbortedTransaction]) -> int:
    """Truncate a segment to its valid batches and write its indexes; return the number of bytes removed.

    Nothing is synced: until the next flush, startup scans the segment again. A full disk does not prevent
    startup, which is needed to free space: indexes that do not fit stay in memory.
    """
    surplus = segment.size - scanned.valid_end
    if surplus:
        file = segment.context.files.open(segment.path(LOG))
        file.truncate(scanned.valid_end)
        file.close()
        segment.size = scanned.valid_end
    try:
        segment.replace_indexes(scanned.indexes, durable=False)
        segment.replace_aborted(aborted)
    except OSError as error:
        if error.errno not in DISK_FULL_ERRORS:
            raise
        segment.keep_indexes_in_memory(scanned.indexes, aborted)
    segment.close()
    return surplus
