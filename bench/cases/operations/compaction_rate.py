"""O6: MB of log compacted per second.

One partition of 1 KB keyed records, of which a share is overwritten later, all in closed segments and in the
page cache. The topic is filled with cleanup.policy=delete; the clock starts when that is changed to compact
and stops when the broker's cleaner-offset-checkpoint reaches the active segment. The config change and the
cleaner's backoff (100 ms) are included, on both sides. Afterwards the log is read: exactly the last record of
each key must be present. One cleaner thread, no throttle, default buffers. The limit columns are empty: only
the broker runs.
"""

from __future__ import annotations

import os

from bench.fixtures.keyed_log import KeyedLog, must_be_compacted, write
from bench.fixtures.topic_fill import log_files
from bench.harness import Bench, Goal, Row, Sample
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
            row = Row(CASE, f"{size_mb:.0f} MB, 1 KB records, {share:.0%} overwritten", "MB/s", GOAL)

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
    elapsed = meter.stop()
    must_be_compacted(broker, log)
    broker.delete_topic(log.topic)
    cost = {
        "seconds": elapsed.seconds,
        "others_share": elapsed.others_cpu_seconds / elapsed.seconds,
        "rss_peak_mb": broker.usage().rss_peak_bytes / MB,
        "cpu_s_per_gb": elapsed.broker_cpu_seconds / (log.bytes / GB),
    }
    return Sample(log.bytes / MB / elapsed.seconds, cost)


def _fill(broker: Broker, log: KeyedLog) -> None:
    """Write and flush the log, so that no write-back falls into the measurement."""
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
        raise ConnectionError(f"{broker.name} must have {log.segments + 1} segments, got {len(files)}")
    for path in files:
        handle = os.open(path, os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)
