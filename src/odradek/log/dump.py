"""Text dump of log files, in the format of Kafka's DumpLogSegments.

Reads ``.log``, ``.index``, ``.timeindex``, ``.txnindex`` and ``.snapshot`` files and
``leader-epoch-checkpoint``. Problems of a file are written to ``complain``, the summary of mismatches after
all files, like Kafka does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from odradek.log.checkpoints import LEADER_EPOCH_CHECKPOINT
from odradek.log.dump_lines import DumpOptions, aborted_line, batch_line, producer_line, record_line
from odradek.log.leader_epoch_cache import parse_epochs
from odradek.log.producers.snapshot_file import decode_snapshot
from odradek.log.segments.segment_format import (
    LOG,
    OFFSET_INDEX,
    OFFSETS,
    SEGMENT_SUFFIXES,
    SNAPSHOT,
    TIMES,
    TRANSACTION_INDEX,
    is_valid_offset_index,
    is_valid_time_index,
    parse_file_name,
)
from odradek.log.segments.transaction_index import check_aborted, decode_aborted
from odradek.model.errors import BrokerError, StorageError
from odradek.model.ids import NO_TIMESTAMP
from odradek.ports.files import FileSystem
from odradek.records.codec import decode_batch, read_headers
from odradek.records.layout import LOG_OVERHEAD, BatchHeader

__all__ = ["DumpOptions", "dump"]

Write = Callable[[str], None]
"""Called with one line."""


@dataclass(slots=True)
class _Findings:
    """Mismatches by file."""

    offsets: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    times: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    time_order: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    time_offsets: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    gaps: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    errors: int = 0

    def count(self) -> int:
        kinds = (self.offsets, self.times, self.time_order, self.time_offsets)
        return self.errors + sum(len(pairs) for kind in kinds for pairs in kind.values())

    def report(self, complain: Write) -> None:
        """Write the summary, in Kafka's wording and order."""
        _report(complain, self.offsets, "Mismatches in :{}", "  Index offset: {}, log offset: {}")
        _report(
            complain,
            self.times,
            "Found timestamp mismatch in :{}",
            "  Index timestamp: {}, log timestamp: {}",
        )
        _report(
            complain,
            self.time_order,
            "Found out of order timestamp in :{}",
            "  Index timestamp: {}, Previously indexed timestamp: {}",
        )
        _report(
            complain,
            self.time_offsets,
            "The following indexed offsets are not found in the log.",
            "Indexed offset: {}, found log offset: {}",
        )
        _report(complain, self.gaps, "Non-consecutive offsets in {}", "  {} is followed by {}")


def _report(complain: Write, mismatches: dict[str, list[tuple[int, int]]], head: str, line: str) -> None:
    for path, pairs in mismatches.items():
        complain(head.format(path))
        for pair in pairs:
            complain(line.format(*pair))


def dump(
    files: FileSystem, paths: Sequence[str], options: DumpOptions, write: Write, complain: Write | None = None
) -> int:
    """Dump files and return the number of problems. Problems are written to ``write`` by default."""
    complain = complain or write
    findings = _Findings()
    for path in paths:
        write(f"Dumping {path}")
        try:
            _dump_file(files, path, options, write, complain, findings)
        except FileNotFoundError as missing:
            findings.errors += 1
            complain(f"{missing.filename or path} does not exist")
        except StorageError as malformed:
            findings.errors += 1
            complain(str(malformed))
    findings.report(complain)
    return findings.count()


def _dump_file(
    files: FileSystem, path: str, options: DumpOptions, write: Write, complain: Write, findings: _Findings
) -> None:
    name = path.rpartition("/")[2]
    parsed = parse_file_name(name)
    if name == LEADER_EPOCH_CHECKPOINT:
        for leader_epoch, start_offset in parse_epochs(_text(files, path), path).entries:
            write(f"leaderEpoch: {leader_epoch} startOffset: {start_offset}")
    elif parsed is None or parsed.mark or parsed.suffix not in {*SEGMENT_SUFFIXES, SNAPSHOT}:
        complain(f"Ignoring unknown file {path}")
    elif parsed.suffix == SNAPSHOT:
        for producer in decode_snapshot(files.read_whole(path), path):
            write(producer_line(producer))
    elif parsed.suffix == TRANSACTION_INDEX:
        _Dump(files, path, parsed.base_offset, options, write, complain, findings).transaction_index()
    elif parsed.suffix == LOG:
        _Dump(files, path, parsed.base_offset, options, write, complain, findings).log()
    elif parsed.suffix == OFFSET_INDEX:
        _Dump(files, path, parsed.base_offset, options, write, complain, findings).offset_index()
    else:
        _Dump(files, path, parsed.base_offset, options, write, complain, findings).time_index()


def _text(files: FileSystem, path: str) -> str:
    return files.read_whole(path).decode("utf-8", "replace")


def _map(files: FileSystem, path: str) -> memoryview:
    file = files.open(path, writable=False)
    view = file.map()
    file.close()
    return view


def _walk(view: memoryview, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Yield batches and their positions, up to the first unreadable batch."""
    while 0 <= position <= len(view) - LOG_OVERHEAD:
        length = int.from_bytes(view[position + 8 : position + LOG_OVERHEAD], "big", signed=True)
        try:
            headers = read_headers(view[position : position + LOG_OVERHEAD + max(length, 0)])
        except BrokerError:
            return
        if not headers:
            return
        yield position, headers[0]
        position += headers[0].size_bytes


@dataclass(slots=True)
class _Dump:
    """Dump of one file."""

    files: FileSystem
    path: str
    base_offset: int
    options: DumpOptions
    write: Write
    complain: Write
    findings: _Findings

    def map_sibling(self, suffix: str) -> memoryview:
        """Map another file of the same segment."""
        stem = self.path.rpartition(".")[0]
        return _map(self.files, stem + suffix)

    # Batches.

    def log(self) -> None:
        self.write(f"Log starting offset: {self.base_offset}")
        view = _map(self.files, self.path)[: self.options.max_bytes]
        end, last_offset = 0, -1
        for position, header in _walk(view):
            batch = view[position : position + header.size_bytes]
            self.write(f"{batch_line(header, batch, position)}")
            if self.options.is_deep:
                last_offset = self._records(header, batch, position, last_offset)
            end = position + header.size_bytes
        if end < len(view) and self.options.max_bytes is None:
            self.findings.errors += 1
            name = self.path.rpartition("/")[2]
            self.write(f"Found {len(view) - end} invalid bytes at the end of {name}")

    def _records(self, header: BatchHeader, batch: memoryview, position: int, last_offset: int) -> int:
        try:
            records = decode_batch(batch, header._replace(position=0))
        except BrokerError as error:
            self.findings.errors += 1
            self.complain(f"The records of the batch at position {position} cannot be read: {error.message}")
            return last_offset
        for record in records:
            if last_offset not in {-1, record.offset - 1}:
                self.findings.gaps.setdefault(self.path, []).append((last_offset, record.offset))
            last_offset = record.offset
            self.write(record_line(header, record, self.options))
        return last_offset

    # Indexes.

    def offset_index(self) -> None:
        index, log = _map(self.files, self.path), self.map_sibling(LOG)
        if not OFFSETS.count(index):
            self.write(f"{self.path} is empty.")
            return
        if self.options.index_sanity_check:
            self._report_sanity(is_valid_offset_index(index, len(log)))
            return
        for number, (relative, position) in enumerate(OFFSETS.entries(index)):
            if relative == 0 and number > 0:
                return  # unused rest of a preallocated file
            offset = self.base_offset + relative
            log_offset = next((header.last_offset for _, header in _walk(log, position)), -1)
            if log_offset != offset:
                self.findings.offsets.setdefault(self.path, []).append((offset, log_offset))
            if not self.options.verify_index_only:
                self.write(f"offset: {offset} position: {position}")

    def time_index(self) -> None:
        times, offsets, log = (
            _map(self.files, self.path),
            self.map_sibling(OFFSET_INDEX),
            self.map_sibling(LOG),
        )
        if self.options.index_sanity_check:
            self._report_sanity(is_valid_time_index(times))
            return
        previous = NO_TIMESTAMP
        for number, (timestamp, relative) in enumerate(TIMES.entries(times)):
            if relative == 0 and number > 0:
                return
            near = OFFSETS.lookup(offsets, relative)
            batches = _walk(log, near[1] if near else 0)
            self._check_time(log, batches, (timestamp, self.base_offset + relative), previous)
            if not self.options.verify_index_only:
                self.write(f"timestamp: {timestamp} offset: {self.base_offset + relative}")
            previous = timestamp

    def _check_time(
        self,
        log: memoryview,
        batches: Iterator[tuple[int, BatchHeader]],
        entry: tuple[int, int],
        previous: int,
    ) -> None:
        timestamp, offset = entry
        position, header = next((batch for batch in batches if batch[1].last_offset >= offset), (0, None))
        if header is None or header.last_offset != offset:
            log_offset = -1 if header is None else header.last_offset
            self.findings.time_offsets.setdefault(self.path, []).append((offset, log_offset))
            return
        try:
            records = decode_batch(log[position : position + header.size_bytes], header._replace(position=0))
        except BrokerError:
            records = []
        max_timestamp = max((record.timestamp for record in records), default=NO_TIMESTAMP)
        if max_timestamp != timestamp:
            self.findings.times.setdefault(self.path, []).append((timestamp, max_timestamp))
        if previous >= timestamp:
            self.findings.time_order.setdefault(self.path, []).append((timestamp, previous))

    def transaction_index(self) -> None:
        entries = decode_aborted(self.files.read_whole(self.path), self.path)
        if not self.options.verify_index_only:
            for entry in entries:
                self.write(aborted_line(entry))
        check_aborted(entries, self.base_offset, self.path)
        markers = {
            header.base_offset: header for _, header in _walk(self.map_sibling(LOG)) if header.is_control
        }
        for entry in entries:
            marker = markers.get(entry.last_offset)
            if marker is None or marker.producer_id != entry.producer_id:
                self.findings.errors += 1
                self.complain(f"{self.path}: the log has no abort marker for {entry}")

    def _report_sanity(self, is_valid: bool) -> None:
        if is_valid:
            self.write(f"{self.path} passed sanity check.")
        else:
            self.findings.errors += 1
            self.complain(f"{self.path} failed the sanity check; a broker rebuilds it at startup.")
