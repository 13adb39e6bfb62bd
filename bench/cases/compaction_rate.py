"""O6: how many MB of log a cleaner works through per second.

One partition of 1 KB records with keys, of which a share is written again later, all of it in closed
segments and in the page cache. The topic is filled with cleanup.policy=delete; the clock starts when that is
changed to compact and ends when the broker's cleaner-offset-checkpoint has reached the active segment. The
change itself and the cleaner's wait between two looks (100 ms) are in the time, on both sides. Afterwards all
is read: exactly the last record of each key must be there. One cleaner thread, no throttle, default buffers.
The limit columns are empty: nothing but the broker works.
"""

from __future__ import annotations

import os

from bench.filling import log_files
from bench.harness import Bench, Goal, Row, Sample
from bench.keyed_log import KeyedLog, must_be_compacted, write
from bench.meter import GB, MB, Meter
from bench.peers.broker import Broker

CASE = "O6"
SEGMENTS, FULL_SEGMENTS = 16, 64
REPEATED_SHARES = (0.75, 0.1)
GOAL = Goal("ratio", "≥", 1.0)
CLEANER_CHECKPOINT = "cleaner-offset-checkpoint"
RECOVERY_CHECKPOINT = "recovery-point-offset-checkpoint"
CLEAN_SECONDS_MAX = 120.0
FLUSH_SECONDS_MAX = 30.0
SETTINGS = {
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.threads": "1",
    "log.initial.task.delay.ms": "500",
    "log.flush.offset.checkpoint.interval.ms": "500",
}


def run(bench: Bench) -> None:
    with bench.brokers(pinned=False, settings=SETTINGS) as sides:
        segments = FULL_SEGMENTS if bench.full else SEGMENTS
        bench.settle(sides, lambda b: _warm(bench, b).cost["cpu_s_per_gb"])
        for share in REPEATED_SHARES:
            size_mb = KeyedLog("", segments, share, 0).bytes / MB
            row = Row(CASE, f"{size_mb:.0f} MB, 1 KB records, {share:.0%} written again", "MB/s", GOAL)

            def measure(broker: Broker, share: float = share) -> Sample:
                log = KeyedLog(bench.fresh_name("compacted"), segments, share, bench.seed)
                return _measure(broker, log)

            bench.compare(row, sides.running, measure, missing=sides.missing)


def _warm(bench: Bench, broker: Broker) -> Sample:
    return _measure(broker, KeyedLog(bench.fresh_name("compacted"), SEGMENTS, REPEATED_SHARES[0], bench.seed))


def _measure(broker: Broker, log: KeyedLog) -> Sample:
    _fill(broker, log)
    meter = Meter(broker.pid)
    meter.start()
    broker.alter_topic(log.topic, {"cleanup.policy": "compact"})
    broker.await_checkpoint(CLEANER_CHECKPOINT, log.topic, log.records, seconds_max=CLEAN_SECONDS_MAX)
    passed = meter.stop()
    must_be_compacted(broker, log)
    broker.delete_topic(log.topic)
    cost = {
        "seconds": passed.seconds,
        "others_share": passed.others_cpu_seconds / passed.seconds,
        "rss_peak_mb": broker.usage().rss_peak_bytes / MB,
        "cpu_s_per_gb": passed.broker_cpu_seconds / (log.bytes / GB),
    }
    return Sample(log.bytes / MB / passed.seconds, cost)


def _fill(broker: Broker, log: KeyedLog) -> None:
    """Write it and bring it to the disk, so that no write-back of the filling falls into the measurement."""
    config = {
        "cleanup.policy": "delete",
        "segment.bytes": str(log.segment_bytes),
        "min.cleanable.dirty.ratio": "0.01",
    }
    broker.create_topic(log.topic, 1, config)
    write(broker, log)
    broker.await_checkpoint(RECOVERY_CHECKPOINT, log.topic, log.records, seconds_max=FLUSH_SECONDS_MAX)
    files = log_files(broker, log.topic)
    if len(files) != log.segments + 1:
        raise ConnectionError(f"{broker.name} has {len(files)} segments, not {log.segments + 1}")
    for path in files:
        handle = os.open(path, os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)
