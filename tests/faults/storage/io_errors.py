"""R11: a failing disk: EIO, a failed sync, a short write, no file descriptors.

A broker in memory; one operation on one kind of file fails. Appends are acknowledged or fail, never both;
acknowledged records survive a crash of the process; after a full disk appends resume, after a disk failure
they fail until the next start.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import random
from collections.abc import Callable
from functools import partial
from typing import Any

from tests.faults.fault_report import FaultReport
from tests.faults.storage.bit_flips import Tracebacks
from tests.faults.storage.specimen import (
    AFTER_CRC,
    Specimen,
    batch_of,
    create,
    files_of,
    produce,
    read_all,
)

from odradek.model.errors import StorageError
from odradek.testing.broker import Client, ConnectionEnded, MemoryBroker, MemoryCluster
from odradek.testing.clock import run_virtually
from odradek.testing.files import MemoryFileSystem

KAFKA_STORAGE_ERROR = 56
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE)
NAMES = (".log", ".index", ".timeindex", "checkpoint.tmp", "")
"""Suffixes of the files that fail; the last matches any."""
APPENDS = 30

Fail = Callable[[MemoryFileSystem], None]


def play(rounds: int, seed: int) -> FaultReport:
    """Fail one operation per round."""
    report = FaultReport("failing disk", seed)
    rng = random.Random(seed)
    tracebacks = Tracebacks()
    logger = logging.getLogger("odradek")
    logger.addHandler(tracebacks)
    try:
        for number in range(rounds):
            run_virtually(partial(_round, number, _choose(rng), rng, report))
    finally:
        logger.removeHandler(tracebacks)
    for said in tracebacks.messages:
        report.violate(f"traceback: {said}")
    return report


def _choose(rng: random.Random) -> tuple[str, int, Fail]:
    name_end = rng.choice(NAMES)
    if rng.random() < 0.4:
        code = rng.choice((errno.EIO, errno.ENOSPC))
        return f"sync of *{name_end}", code, lambda files: files.fail_next_sync(code, name_end=name_end)
    code = rng.choice((errno.EIO, *FULL))
    written = rng.choice((0, 1, 30, 61, 90))
    return (
        f"write to *{name_end}",
        code,
        lambda files: files.fail_next_write(code, written=written, name_end=name_end),
    )


async def _round(seed: int, fault: tuple[str, int, Fail], rng: random.Random, report: FaultReport) -> None:
    description, code, fail = fault
    cluster = MemoryCluster(seed)
    broker = await cluster.start()
    client = await broker.connect()
    settings = {"segment_bytes": "900", "index_interval_bytes": "150", "retention_ms": "-1"}
    assert await create(client, **settings) == 0
    kept: dict[int, bytes] = {}
    at = rng.randrange(APPENDS)
    failed_count = 0
    for number in range(APPENDS):
        if number == at:
            fail(cluster.files)
        entry = await _append(client, batch_of(3 * number))
        if entry is None:
            break
        if entry.error_code == 0:
            report.check(
                entry.base_offset not in kept, f"{description}: offset {entry.base_offset} was given twice"
            )
            kept[entry.base_offset] = batch_of(3 * number)
        else:
            failed_count += 1
            report.check(
                entry.error_code == KAFKA_STORAGE_ERROR, f"{description}: refused with {entry.error_code}"
            )
        if rng.random() < 0.2:
            await asyncio.sleep(rng.choice((1, 5, 70)))
    report.faults += 1
    report.acknowledged += len(kept)
    if code in FULL and description.startswith("write"):
        report.check(
            failed_count <= 1,
            f"{description}, {errno.errorcode[code]}: {failed_count} appends refused after one error",
        )
    report.outcomes[f"{errno.errorcode[code]}: {'appends failed' if failed_count else 'no effect'}"] += 1
    await _end_and_read(cluster, broker, kept, f"{description}, {errno.errorcode[code]}", report)


async def _append(client: Client, batch: bytes) -> Any:
    """Append; return the response, or None if the connection ended: a broker without a disk may exit."""
    try:
        return await produce(client, batch)
    except ConnectionEnded:
        return None


async def _end_and_read(
    cluster: MemoryCluster,
    broker: MemoryBroker,
    kept: dict[int, bytes],
    description: str,
    report: FaultReport,
) -> None:
    """Crash the process, restart on its files, and check all acknowledged records."""
    remaining_files = files_of(cluster.files)
    with contextlib.suppress(StorageError):
        await broker.stop()
    Specimen(remaining_files, {}, 0, cluster).on_files({})
    broker = await cluster.start()
    served = await read_all(await broker.connect(), broker)
    report.check(served.problem is None, f"{description}: cannot be read: {served.problem}")
    for offset, batch in kept.items():
        batch = served.batches.get(offset, b"")
        report.check(
            batch[AFTER_CRC:] == batch[AFTER_CRC:], f"{description}: acknowledged batch at {offset} is lost"
        )
    await broker.stop()
    await cluster.close()
