"""A log of keyed records that says by itself what compaction must leave of it.

Record number n has offset n and a value that begins with n, so whatever is read can be judged alone. All
batches have the same size and fill segments exactly; a marker with a key of its own follows and opens the
next segment. So everything but the marker lies in closed segments, and after compaction each key must be
there once, with its last value, at its old offset.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from bench.loads.exchange import ask, connect, error_codes
from bench.loads.frames import batch, produce
from bench.loads.values import values
from bench.peers.broker import Broker, BrokerFailed

MARKER_KEY = b"marker"
VALUE_BYTES = 1000
BATCH_RECORDS = 64
SEGMENT_BATCHES = 256  # 16 MB
READ_AT_ONCE = 2_000
POLL_SECONDS = 0.2
SILENCE_SECONDS_MAX = 20.0


class KeyedLog(NamedTuple):
    """`segments` closed segments in one partition; the share of records whose key comes again later."""

    topic: str
    segments: int
    repeated_share: float
    seed: int

    @property
    def records(self) -> int:
        return self.segments * SEGMENT_BATCHES * BATCH_RECORDS

    @property
    def bytes(self) -> int:
        return self.segments * self.segment_bytes

    @property
    def segment_bytes(self) -> int:
        return SEGMENT_BATCHES * len(batch([b"-" * VALUE_BYTES] * BATCH_RECORDS, [_key(0)] * BATCH_RECORDS))

    def keys(self) -> list[int]:
        """The key of every record: each of them at least once, the rest repeats, all in random order."""
        source = random.Random(self.seed)
        distinct = self.records - int(self.records * self.repeated_share)
        chosen = [*range(distinct), *(source.randrange(distinct) for _ in range(self.records - distinct))]
        source.shuffle(chosen)
        return chosen

    def last_offsets(self) -> dict[int, int]:
        return {key: offset for offset, key in enumerate(self.keys())}


def _key(number: int) -> bytes:
    return b"key-%012d" % number


def write(broker: Broker, log: KeyedLog) -> None:
    """Fill a topic that exists and has `log.segment_bytes` as its segment size."""
    with connect(broker.port) as connection:
        for records in _batches(log):
            exchange = produce(log.topic, {0: records})
            codes = error_codes(exchange, ask(connection, exchange.frame))
            if codes != [0]:
                raise ConnectionError(f"writing keyed records gave error codes {codes}")


def _batches(log: KeyedLog) -> Iterator[bytes]:
    filler = values(BATCH_RECORDS, VALUE_BYTES, log.seed)
    keys = log.keys()
    for first in range(0, log.records, BATCH_RECORDS):
        numbered = [(b"%012d" % (first + n)) + filler[n][12:] for n in range(BATCH_RECORDS)]
        yield batch(numbered, [_key(key) for key in keys[first : first + BATCH_RECORDS]])
    yield batch([b"marker"], [MARKER_KEY])


def must_be_compacted(broker: Broker, log: KeyedLog) -> None:
    """Read it all; raise BrokerFailed unless exactly the last record of each key is there, in its place."""
    expected = {_key(key): offset for key, offset in log.last_offsets().items()}
    seen = 0
    for key, offset, value in _read(broker, log):
        seen += 1
        if expected.pop(key, None) != offset or int(value[:12]) != offset or len(value) != VALUE_BYTES:
            raise BrokerFailed(
                f"{broker.name}: {key!r} at {offset} is not the last of its key, or is changed"
            )
    if expected:
        raise BrokerFailed(f"{broker.name}: {len(expected)} keys are gone, {seen} are there")


def _read(broker: Broker, log: KeyedLog) -> Iterator[tuple[bytes, int, bytes]]:
    """Everything before the marker."""
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "none", "enable.auto.commit": False}
    consumer = Consumer({**settings, "check.crcs": True})
    with closing(consumer):
        consumer.assign([TopicPartition(log.topic, 0, OFFSET_BEGINNING)])
        heard = time.monotonic()
        while time.monotonic() - heard < SILENCE_SECONDS_MAX:
            for message in consumer.consume(READ_AT_ONCE, POLL_SECONDS):
                heard = time.monotonic()
                if message.error() is not None:
                    raise BrokerFailed(f"{broker.name}: reading gave {message.error()}")
                key, offset, value = message.key(), message.offset(), message.value()
                if key == MARKER_KEY:
                    return
                assert isinstance(key, bytes)
                assert isinstance(value, bytes)
                assert offset is not None
                yield key, offset, value
    raise BrokerFailed(f"{broker.name}: {log.topic} ended before its marker")
