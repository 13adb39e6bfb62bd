"""R13: one bit of one file is flipped, or one file is missing.

Every bit of every file of a data directory is tried with a broker in memory, after a clean shutdown and
after a crash of the process. The broker starts, or fails with one line that names the file; it never serves
bytes that pass a reader's checksum and differ from what was written; there are no tracebacks.
"""

from __future__ import annotations

import logging
import random
import struct
from collections.abc import Iterator, Mapping

from tests.faults.fault_report import FaultReport
from tests.faults.storage.specimen import (
    AFTER_CRC,
    FIRST_TIMESTAMP,
    SETTINGS,
    START,
    STATES,
    Served,
    Specimen,
    batch_of,
    list_offset,
    make_specimen,
    produce,
    read_all,
)

from odradek.model.errors import ConfigError, StorageError
from odradek.records import codec
from odradek.store.port import StoreError
from odradek.testing.broker import MemoryBroker, MemoryCluster
from odradek.testing.clock import run_virtually

BATCHES = 24
NEXT_BATCH = BATCHES + (2 - BATCHES % 3)
"""A batch of an idempotent producer, so that its state is loaded from the log."""


SOUND = ("all served", "cut at a batch", "start changed")
"""Outcomes after which the log is intact, and new appends can be read."""


class Tracebacks(logging.Handler):
    """Counts unexpected errors logged by the broker."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info is not None:
            self.messages.append(record.getMessage()[:300])


def kind_of(path: str) -> str:
    """Return the file's kind: its suffix, or its name."""
    name = path.rpartition("/")[2]
    return name[20:] if name[:20].isdigit() else name


def flips(specimen: Specimen, count: int | None, seed: int) -> Iterator[tuple[str, int]]:
    """Yield path and bit: all, or a random sample with equal counts per kind of file."""
    everything = [(path, bit) for path, content in specimen.files.items() for bit in range(8 * len(content))]
    if count is None:
        yield from everything
        return
    rng = random.Random(seed)
    kinds = sorted({kind_of(path) for path, _ in everything})
    for kind in kinds:
        of_kind = [flip for flip in everything if kind_of(flip[0]) == kind]
        yield from rng.sample(of_kind, min(len(of_kind), count // len(kinds)))


def flipped(content: bytes, bit: int) -> bytes:
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def play(count: int | None, seed: int, *, clean: bool) -> FaultReport:
    """Flip ``count`` bits (all if None), one at a time, then delete each file once."""
    report = FaultReport(f"bit flips after {'a clean shutdown' if clean else 'a crash'}", seed)

    async def main() -> None:
        cluster = MemoryCluster(seed)
        specimen = await make_specimen(cluster, BATCHES, clean=clean)
        report.acknowledged = specimen.end_offset
        for path, bit in flips(specimen, count, seed):
            change = {path: flipped(specimen.files[path], bit)}
            await _try(specimen, change, f"{path} bit {bit}", report)
        for path in specimen.files:
            await _try(specimen, {path: None}, f"{path} deleted", report)
        await cluster.close()

    tracebacks = Tracebacks()
    logger = logging.getLogger("odradek")
    logger.addHandler(tracebacks)
    try:
        run_virtually(main)
    finally:
        logger.removeHandler(tracebacks)
    for said in tracebacks.messages:
        report.violate(f"traceback: {said}")
    return report


async def _try(
    specimen: Specimen, change: Mapping[str, bytes | None], description: str, report: FaultReport
) -> None:
    report.faults += 1
    [path] = change
    kind = kind_of(path) + (" deleted" if change[path] is None else "")
    specimen.on_files(change)
    try:
        broker = await specimen.cluster.start(SETTINGS)
    except (StorageError, ConfigError, StoreError) as error:
        names_it = path in str(error) or path.rpartition("/")[0] in str(error)
        report.check(names_it and "\n" not in str(error), f"{description}: an unclear refusal: {error}")
        report.outcomes[f"{kind}: start refused"] += 1
        return
    except Exception as broken:  # noqa: BLE001 - this is what must not happen
        report.violate(f"{description}: start broke with {broken!r}")
        return
    try:
        outcome = await _classify(specimen, broker, description, report)
    finally:
        await broker.stop()
    report.outcomes[f"{kind}: {outcome}"] += 1


async def _classify(specimen: Specimen, broker: MemoryBroker, description: str, report: FaultReport) -> str:
    client = await broker.connect()
    served = await read_all(client, broker)
    outcome = _compare(specimen, served, description, report)
    code, offset = await list_offset(client, FIRST_TIMESTAMP + 10 * (BATCHES // 2))
    if code == 0 and outcome == "all served":
        expected = sorted(specimen.batches)[BATCHES // 2]
        report.check(offset == expected, f"{description}: a search by time gave {offset}, not {expected}")
    code, _ = await list_offset(client, -3)
    _check_compacted_topic(specimen, await read_all(client, broker, STATES), description, report)
    entry = await produce(client, batch_of(NEXT_BATCH))
    if outcome == "all served":
        report.check(entry.error_code == 0, f"{description}: append refused with {entry.error_code}")
        report.check(
            entry.base_offset == specimen.end_offset, f"{description}: appended at {entry.base_offset}"
        )
    if entry.error_code == 0 and outcome in SOUND:
        reread = await read_all(client, broker)
        batches_found = reread.batches.get(entry.base_offset, b"")
        is_there = batches_found[AFTER_CRC:] == batch_of(NEXT_BATCH)[AFTER_CRC:]
        report.check(
            is_there or reread.problem is not None, f"{description}: appended and not there: {reread.problem}"
        )
    return outcome


def _check_compacted_topic(specimen: Specimen, served: Served, description: str, report: FaultReport) -> None:
    """Check the compacted topic: only written records, and the newest of each key if its files are intact.

    The cleaner may have run meanwhile.
    """
    batches_found = {}
    for batch in served.batches.values():
        for record in codec.decode(batch):
            batches_found[record.offset] = record
    by_value = {state.value for state in specimen.states.values()}
    report.check(
        all(record.value in by_value for record in batches_found.values()),
        f"{description}: {STATES} has other records",
    )
    if served.problem is None and f"/{STATES}-0/" not in description:
        newest = {state.key: state for state in specimen.states.values()}
        values = {record.value for record in batches_found.values()}
        missing = [key for key, record in newest.items() if record.value not in values]
        report.check(not missing, f"{description}: {STATES} has lost {missing}")


def _compare(specimen: Specimen, served: Served, description: str, report: FaultReport) -> str:
    """Classify what the reader got; a valid batch that was not written is a violation."""
    moved = 0
    by_content = {batch[AFTER_CRC:]: offset for offset, batch in specimen.batches.items()}
    for offset, batch in served.batches.items():
        written = by_content.get(batch[AFTER_CRC:])
        if written is None:
            report.violate(f"{description}: a batch at {offset} is not what was written")
        elif written != offset:
            moved += 1
    if moved:
        return "offset of a batch changed"
    if served.problem is not None:
        return served.problem
    expected = {offset for offset, batch in specimen.batches.items() if _last(offset, batch) >= served.start}
    missing = expected - set(served.batches)
    if missing:
        is_prefix = min(missing) > max(served.batches, default=-1)
        return "cut at a batch" if is_prefix else "hole"
    if served.end != specimen.end_offset:
        return "end changed"
    return "all served" if served.start <= START else "start changed"


def _last(offset: int, batch: bytes) -> int:
    return offset + int(struct.unpack_from(">i", batch, 23)[0])
