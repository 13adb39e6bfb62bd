"""O3: from exec to the first acknowledged record after a kill -9, and after a clean stop, as the log grows.

One partition with segments of 1 MB that are on the disk (the recovery point has passed them and is
checkpointed), another with 16 MB that are not, then SIGKILL. Only those 16 MB have to be read again, so the
time should not grow with the rest; the last row sets our largest log against our smallest. Every round starts
from the same files: what the kill left is kept beside and put back, with links to segments that never change.

The machine stays up, so all is in the page cache. Kafka cannot start until ZooKeeper has forgotten its
earlier life (6 s here, 18 s by default): that wait is left out. ZooKeeper is up.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from bench.filling import Filling, fill, fill_further, log_files
from bench.growth import growth
from bench.harness import Bench, Goal, Row, Sample
from bench.peers.broker import Broker
from bench.starting import start

CASE = "O3"
FLUSHED, TAIL = "flushed", "tail"
SEGMENT_BATCHES = 16
TAIL_BATCHES = 256
SIZES_MB = (64, 512, 2048)
FULL_SIZES_MB = (64, 1024, 10240)
GOAL = Goal("ratio", "≤", 0.5)
FLAT = Goal("ratio", "≤", 1.25)
RECOVERY_CHECKPOINT = "recovery-point-offset-checkpoint"
FLUSH_SECONDS_MAX = 60.0
SETTINGS = {
    "log.initial.task.delay.ms": "500",
    "log.flush.offset.checkpoint.interval.ms": "500",
    "zookeeper.session.timeout.ms": "6000",
}


def run(bench: Bench) -> None:
    rows: list[Row] = []
    sizes_mb = FULL_SIZES_MB if bench.full else SIZES_MB
    for size_mb in sizes_mb:
        with bench.brokers(pinned=False, running=False, settings=SETTINGS) as sides:

            def killing(broker: Broker, size_mb: int = size_mb) -> Sample:
                return _after_a_kill(bench, broker, size_mb)

            row = Row(CASE, f"kill -9, {size_mb:,} MB flushed, 16 MB not", "s", GOAL)
            # A new process knows nothing of the one before: there is nothing to warm up.
            rows.append(bench.compare(row, sides.running, killing, missing=sides.missing, warm_up=False))
            if size_mb == sizes_mb[-1]:
                row = Row(CASE, f"clean stop, {size_mb:,} MB", "s", GOAL)
                bench.compare(row, sides.running, _after_a_stop, missing=sides.missing)
            for broker in sides.running.values():
                shutil.rmtree(_kept(broker), ignore_errors=True)
    bench.rows.append(growth("kill -9, the largest log ÷ the smallest", rows[0], rows[-1], FLAT))


def _after_a_kill(bench: Bench, broker: Broker, size_mb: int) -> Sample:
    if not _kept(broker).exists():
        began = time.monotonic()
        _fill_and_kill(bench, broker, size_mb)
        broker.log_directory.rename(_kept(broker))
        bench.say(f"{CASE}: {broker.name} filled and killed in {time.monotonic() - began:.0f} s")
    shutil.rmtree(broker.log_directory, ignore_errors=True)
    _put_back(_kept(broker), broker.log_directory)
    sample = start(broker, TAIL)
    broker.kill()
    return sample


def _after_a_stop(broker: Broker) -> Sample:
    """What came before the uncounted round was a kill; before the others it was a stop."""
    sample = start(broker, TAIL)
    sample.cost["stop_seconds"] = broker.stop()
    return sample


def _fill_and_kill(bench: Bench, broker: Broker, size_mb: int) -> None:
    one = Filling(partitions=1, batches=1, records=64, size=1000)
    flushed = one._replace(batches=size_mb * SEGMENT_BATCHES)
    config = {"segment.bytes": str(SEGMENT_BATCHES * one.batch_bytes(bench.seed))}
    broker.start()
    fill(bench, broker, FLUSHED, flushed, config)
    fill_further(bench, broker, FLUSHED, one)  # closes the last full segment
    offset = flushed.batches * flushed.records
    broker.await_checkpoint(RECOVERY_CHECKPOINT, FLUSHED, offset, seconds_max=FLUSH_SECONDS_MAX)
    fill(bench, broker, TAIL, one._replace(batches=TAIL_BATCHES))
    segments = len(log_files(broker, FLUSHED))
    broker.kill()
    if segments != size_mb + 1:
        raise ConnectionError(f"{broker.name} has {segments} segments, not {size_mb + 1}")
    if broker.checkpoint(RECOVERY_CHECKPOINT, TAIL):
        raise ConnectionError(f"{broker.name} has flushed what should need recovery")


def _kept(broker: Broker) -> Path:
    return broker.directory / "kept"


def _put_back(kept: Path, place: Path) -> None:
    """A tree like the one kept; what a broker could write to is copied."""
    closed = {str(path) for path in sorted(kept.glob(f"{FLUSHED}-0/*.log"))[:-1]}

    def put(source: str, target: str) -> str:
        if source in closed:
            os.link(source, target)
            return target
        return str(shutil.copy2(source, target))

    shutil.copytree(kept, place, copy_function=put)
