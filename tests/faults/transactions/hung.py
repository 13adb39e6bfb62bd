"""A producer that hangs in a transaction blocks readers for its timeout and one cleanup interval.

A plain producer continues in the same partition: a read_committed reader sees none of its records until the
coordinator has aborted the hung transaction. After that the hung producer is fenced.
"""

from __future__ import annotations

import random
import time
from datetime import timedelta
from pathlib import Path

from tests.faults.broker_partitions import append, batch_of, create
from tests.faults.fault_report import FaultReport
from tests.faults.transactions import frames
from tests.faults.transactions.frames import Identity
from tests.faults.transactions.ledger import Killable, await_coordinators
from tests.faults.transactions.reader import READ_COMMITTED
from tests.faults.transactions.worker import FENCED_CODES, RETRIABLE
from tests.support.broker import Broker
from tests.support.kio_requests import fetch, fetched_partition
from tests.support.raw_connection import RawConnection

TOPIC = "held"
TIMEOUT_MS = 4_000
CLEANUP_INTERVAL_MS = 500
SLACK_SECONDS = 5.0
"""Slack for writing markers on a busy machine."""
SETTINGS = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": str(CLEANUP_INTERVAL_MS)}


def play(directory: Path, times: int, seed: int) -> FaultReport:
    """Hang ``times`` transactions on a new broker."""
    broker = Broker(directory, SETTINGS).start()
    try:
        report = play_on(broker, times, seed)
        broker.stop()
    finally:
        if broker.is_running:
            broker.kill_if_running()
    return report


def play_on(broker: Killable, times: int, seed: int) -> FaultReport:
    """The same on a running broker; every other time it is killed while the transaction hangs."""
    report = FaultReport("transactions that hang", seed)
    rng = random.Random(seed)
    with RawConnection(broker.bootstrap) as connection:
        report.check(create(connection, TOPIC) == 0, "the topic was not created")
        await_coordinators(connection, report)
    for number in range(times):
        _hang(broker, f"hung-{number}", kills=number % 2 == 1, after=rng.random(), report=report)
    return report


def _hang(broker: Killable, name: str, *, kills: bool, after: float, report: FaultReport) -> None:
    with RawConnection(broker.bootstrap) as connection:
        who = _begin(connection, name)
        began = time.monotonic()
        _write(connection, who, report)
        entry = append(connection, TOPIC, 0, batch_of(b"behind it"))
        report.check(entry.error_code == 0, f"{name}: a plain record was refused: {entry.error_code}")
        report.check(
            _stable(connection) <= entry.base_offset, f"{name}: the open transaction did not block readers"
        )
    time.sleep(after)
    if kills:
        broker.kill()
        broker.start()
    began = time.monotonic() if kills else began
    with RawConnection(broker.bootstrap) as connection:
        allowed = (TIMEOUT_MS + CLEANUP_INTERVAL_MS) / 1000 + SLACK_SECONDS
        while _stable(connection) <= entry.base_offset and time.monotonic() < began + allowed:
            time.sleep(0.02)
        held = time.monotonic() - began
        report.check(_stable(connection) > entry.base_offset, f"{name}: still held back after {held:.1f} s")
        _check_fenced(connection, who, report)
    report.faults += 1
    report.acknowledged += 1
    report.outcomes["broker killed meanwhile" if kills else "hung alone"] += 1
    report.outcomes["longest hold, ms"] = max(report.outcomes["longest hold, ms"], int(held * 1000))


def _begin(connection: RawConnection, name: str) -> Identity:
    code = RETRIABLE[0]
    while code in RETRIABLE:
        connection.send_frame(frames.init_producer_id(name, TIMEOUT_MS))
        code, producer_id, epoch = frames.initialised(connection.receive_frame())
    if code:
        raise AssertionError(f"{name}: InitProducerId was answered with {code}")
    return Identity(name, producer_id, epoch)


def _write(connection: RawConnection, who: Identity, report: FaultReport) -> None:
    connection.send_frame(frames.add_partitions(who, [(TOPIC, 0)]))
    codes = frames.codes_of(connection.receive_frame())
    report.check(codes == [0], f"{who.transactional_id}: AddPartitionsToTxn was answered with {codes}")
    batches = {(TOPIC, 0): frames.batch(who, 0, [b"hangs"])}
    connection.send_frame(frames.produce(who, batches))
    codes = frames.codes_of(connection.receive_frame(), is_produce=True)
    report.check(codes == [0], f"{who.transactional_id}: Produce was answered with {codes}")


def _check_fenced(connection: RawConnection, who: Identity, report: FaultReport) -> None:
    code = RETRIABLE[0]
    while code in RETRIABLE:
        connection.send_frame(frames.end(who, commits=True))
        code = frames.code_of(connection.receive_frame())
    report.check(
        code in FENCED_CODES, f"{who.transactional_id}: the end that came too late was answered with {code}"
    )
    connection.send_frame(frames.produce(who, {(TOPIC, 0): frames.batch(who, 1, [b"late"])}))
    codes = frames.codes_of(connection.receive_frame(), is_produce=True)
    report.check(codes[0] in FENCED_CODES, f"{who.transactional_id}: a late record was answered with {codes}")


def _stable(connection: RawConnection) -> int:
    """Return the last stable offset; -1 while there is no leader."""
    wanted = fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
    request = fetch.FetchRequest(
        max_wait=timedelta(0),
        min_bytes=0,
        max_bytes=1,
        isolation_level=READ_COMMITTED,
        topics=(fetch.FetchTopic(topic=TOPIC, partitions=(wanted,)),),
        forgotten_topics_data=(),
    )
    return int(fetched_partition(connection.exchange(request)).last_stable_offset)
