"""O3: time from exec to the first acknowledged record after kill -9 and a clean stop, as the log grows.

One partition with flushed segments of 1 MB (below the checkpointed recovery point), another with 16 MB
unflushed, then SIGKILL. Only those 16 MB must be recovered, so that the time should not grow with the rest;
the last row compares our largest and smallest log. Every round starts from the same files: the state after
the kill is saved and restored, with links to immutable segments.

The machine keeps running, so that everything is in the page cache. Kafka cannot start before ZooKeeper has
expired its previous session (6 s here, 18 s by default): that wait is excluded. ZooKeeper is running.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from bench.fixtures.broker_start import start
from bench.fixtures.topic_fill import TopicFill, append_batches, fill, log_files
from bench.growth import growth
from bench.harness import Bench, Goal, Row, Sample
from bench.peers.broker import Broker

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

            def measure(broker: Broker, size_mb: int = size_mb) -> Sample:
                return _after_kill(bench, broker, size_mb)

            row = Row(CASE, f"kill -9, {size_mb:,} MB flushed, 16 MB not", "s", GOAL)
            # Every round is a new process: there is nothing to warm up.
            rows.append(bench.compare(row, sides.running, measure, missing=sides.missing, warm_up=False))
            if size_mb == sizes_mb[-1]:
                row = Row(CASE, f"clean stop, {size_mb:,} MB", "s", GOAL)
                bench.compare(row, sides.running, _after_stop, missing=sides.missing)
            for broker in sides.running.values():
                shutil.rmtree(_saved(broker), ignore_errors=True)
    bench.rows.append(growth("kill -9, the largest log ÷ the smallest", rows[0], rows[-1], FLAT))


def _after_kill(bench: Bench, broker: Broker, size_mb: int) -> Sample:
    if not _saved(broker).exists():
        began = time.monotonic()
        _fill_and_kill(bench, broker, size_mb)
        broker.log_directory.rename(_saved(broker))
        bench.log(f"{CASE}: {broker.name} filled and killed in {time.monotonic() - began:.0f} s")
    shutil.rmtree(broker.log_directory, ignore_errors=True)
    _restore(_saved(broker), broker.log_directory)
    sample = start(broker, TAIL)
    broker.kill()
    return sample


def _after_stop(broker: Broker) -> Sample:
    """Measure a restart; the uncounted round follows a kill, the others a clean stop."""
    sample = start(broker, TAIL)
    sample.cost["stop_seconds"] = broker.stop()
    return sample


def _fill_and_kill(bench: Bench, broker: Broker, size_mb: int) -> None:
    batch_content = TopicFill(partitions=1, batches=1, records=64, size=1000)
    flushed = batch_content._replace(batches=size_mb * SEGMENT_BATCHES)
    config = {"segment.bytes": str(SEGMENT_BATCHES * batch_content.batch_bytes(bench.seed))}
    broker.start()
    fill(bench, broker, FLUSHED, flushed, config)
    append_batches(bench, broker, FLUSHED, batch_content)  # closes the last full segment
    offset = flushed.batches * flushed.records
    broker.await_checkpoint(RECOVERY_CHECKPOINT, FLUSHED, offset, seconds_max=FLUSH_SECONDS_MAX)
    fill(bench, broker, TAIL, batch_content._replace(batches=TAIL_BATCHES))
    segments = len(log_files(broker, FLUSHED))
    broker.kill()
    if segments != size_mb + 1:
        raise ConnectionError(f"{broker.name} must have {size_mb + 1} segments, got {segments}")
    if broker.checkpoint(RECOVERY_CHECKPOINT, TAIL):
        raise ConnectionError(f"{broker.name} flushed the records that should need recovery")


def _saved(broker: Broker) -> Path:
    return broker.directory / "saved"


def _restore(saved: Path, target_directory: Path) -> None:
    """Restore the saved directory; files that a broker could write to are copied."""
    closed = {str(path) for path in sorted(saved.glob(f"{FLUSHED}-0/*.log"))[:-1]}

    def link_or_copy(source: str, target: str) -> str:
        if source in closed:
            os.link(source, target)
            return target
        return str(shutil.copy2(source, target))

    shutil.copytree(saved, target_directory, copy_function=link_or_copy)
