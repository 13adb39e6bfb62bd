"""Random requests from the message tables: every field gets a value of its type, valid or not.

Values come from one ``random.Random``, so that a seed reproduces the requests; only topic ids are those of
the live broker.
"""

from __future__ import annotations

import gzip
import random
from typing import Any

from tests.fuzz.control_requests import (
    CONTROL_KEYS,
    CONTROLLED_SHUTDOWN,
    MOVED_TOPICS,
    OwnBroker,
    restrict,
    spare,
)
from tests.support.record_batches import HandMadeBatch, record

from odradek.broker.topics.topic_planning import PARTITIONS_MAX
from odradek.wire.apis import Api
from odradek.wire.headers import RequestHeader, encode_request_header
from odradek.wire.message_codecs import encoder
from odradek.wire.schema import Field, table_of

TOPICS = [f"fuzz-{number}" for number in range(12)]
BAD_NAMES = ["", ".", "..", "a b", "no/slash", "x" * 249, "x" * 250, "ünicode", "\0", "__consumer_offsets"]
SETTINGS = [
    "retention.ms",
    "cleanup.policy",
    "segment.bytes",
    "compression.type",
    "max.message.bytes",
    "nonsense",
]
SETTING_VALUES = [
    "1",
    "-1",
    "0",
    "delete",
    "compact",
    "compact,delete",
    "zstd",
    "soon",
    "",
    "9" * 30,
    "1000000",
]
EDGES = [0, 1, -1, 2, -2, 7, 127, -128, 32_767, -32_768, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63)]
BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "uint16": 16, "uint32": 32}
DATA_KEYS = frozenset({0, 1, 2, 21, 23})
"""Requests that also name the topics of control requests: Produce, Fetch, ListOffsets, DeleteRecords,
OffsetForLeaderEpoch."""
DEPTH_MAX = 4
PARTITIONS_SMALL = 200
"""Partition counts are small or invalid: creating thirty thousand partitions takes half a minute."""

WAIT_MS_MAX = 40
"""Wait times are short: a broker may wait as long as requested."""


class RequestGenerator:
    """Generates frames for the APIs and versions of a broker."""

    def __init__(self, rng: random.Random, topic_ids: list[bytes], own: OwnBroker) -> None:
        self._random = rng
        self._topic_ids = topic_ids
        self._own = own
        self._names_moved = False

    def frame(self, api: Api, version: int, correlation_id: int) -> bytes:
        """Return a request, header and body, without the size prefix."""
        self._names_moved = api.key in DATA_KEYS
        message = self.structure(api.request, version, 0)
        if api.key in CONTROL_KEYS:
            restrict(message, self._random, self._own)
        elif api.key == CONTROLLED_SHUTDOWN:
            spare(message, self._own)
        body = encoder(api.request, version)(message)
        header = RequestHeader(
            api.key, version, correlation_id, self._random.choice([None, "", "fuzz", "π" * 40])
        )
        return encode_request_header(header) + body

    def structure(self, cls: type, version: int, depth: int) -> Any:
        """Return a message or structure with random values in all fields of this version."""
        fields = {
            name: self.value(name, field, version, depth)
            for name, field in table_of(cls).items()
            if field.is_in(version) and (field.tag is None or self._random.random() < 0.3)
        }
        return cls(**fields)

    def value(self, name: str, field: Field, version: int, depth: int) -> Any:
        """Return a random value for a field."""
        if field.is_nullable_in(version) and self._random.random() < 0.1:
            return None
        match field.kind:
            case "string":
                return self._string(name)
            case "bytes":
                return self._random.randbytes(self._random.choice([0, 1, 8, 300]))
            case "records":
                return self.records()
            case "uuid":
                return self._random.choice([bytes(16), self._random.randbytes(16), *self._topic_ids])
            case "bool":
                return self._random.random() < 0.5
            case "float64":
                return self._random.choice([0.0, -1.5, 1e308, float("inf")])
            case "array":
                return self._array(name, field, version, depth)
            case "struct":
                assert isinstance(field.of, type)
                return self.structure(field.of, version, depth + 1)
        return self._number(name, BITS[field.kind], field.kind.startswith("u"))

    def _array(self, name: str, field: Field, version: int, depth: int) -> list[Any]:
        weights = [1, 6, 2, 1] if depth < DEPTH_MAX else [1, 0, 0, 0]
        (count,) = self._random.choices([0, 1, 2, self._random.randrange(3, 30)], weights)
        if isinstance(field.of, type):
            return [self.structure(field.of, version, depth + 1) for _ in range(count)]
        assert field.of is not None
        return [self.value(name, field.of, version, depth + 1) for _ in range(count)]

    def _string(self, name: str) -> str:
        rng = self._random
        if rng.random() < 0.05:
            return rng.choice(["", "\0", "x" * 32_000, "ÿ" * 100])
        if name in ("name", "topic", "topics", "resource_name", "topic_name", "topic_names"):
            pool = SETTINGS if name == "name" and rng.random() < 0.3 else TOPICS
            if self._names_moved and rng.random() < 0.1:
                pool = MOVED_TOPICS
            return rng.choice(BAD_NAMES) if rng.random() < 0.1 else rng.choice(pool)
        if name == "value":
            return rng.choice(SETTING_VALUES)
        return rng.choice(["", "fuzz", *SETTINGS])

    def _number(self, name: str, bits: int, is_unsigned: bool) -> int:
        low, high = (0, 2**bits - 1) if is_unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        rng = self._random
        if name.endswith("_ms") and "wait" in name:
            return rng.randrange(WAIT_MS_MAX)
        if rng.random() < 0.6:
            return rng.choice(LIKELY.get(name, (0, 1, 2, -1)))
        number = rng.choice(EDGES) if rng.random() < 0.5 else rng.randrange(low, high + 1)
        if name in ("num_partitions", "count") and PARTITIONS_SMALL < number <= PARTITIONS_MAX:
            number %= PARTITIONS_SMALL
        return number if low <= number <= high else number % (high + 1)

    def records(self) -> bytes:
        """Return record batches: valid, with one broken field, compressed, or random bytes."""
        rng = self._random
        records = [
            record(number, rng.choice([None, b"", b"v" * 50]), rng.choice([None, b"k"]))
            for number in range(rng.randrange(1, 6))
        ]
        batch = HandMadeBatch(records=records)
        kind = rng.randrange(8)
        if kind == 0:
            return rng.randbytes(rng.randrange(200))
        if kind == 1:
            broken = rng.choice(
                ["crc", "length", "count", "last_offset_delta", "magic", "attributes", "leader_epoch"]
            )
            setattr(batch, broken, rng.choice([0, 1, 3, 5, 127]))
        elif kind == 2:
            batch.attributes = rng.randrange(8)
            batch.payload = (
                gzip.compress(b"".join(records), mtime=0) if rng.random() < 0.7 else rng.randbytes(60)
            )
        elif kind == 3:
            # Decompresses to three thousand times its size.
            batch.attributes = 1
            batch.payload = BOMB
        elif kind == 4:
            batch.producer_id = rng.randrange(5)
            batch.producer_epoch = rng.randrange(3)
            batch.base_sequence = rng.randrange(10)
        data = batch.build()
        return data * 2 if kind == 5 else data


BOMB = gzip.compress(record(0, bytes(30_000_000)), mtime=0)

LIKELY: dict[str, tuple[int, ...]] = {
    "acks": (-1, 0, 1),
    "num_partitions": (-1, 1, 2, 3),
    "count": (1, 2, 3, 5),
    "replication_factor": (-1, 1),
    "broker_ids": (0, 1),
    "resource_type": (2, 4, 8),
    "config_operation": (0, 1, 2, 3),
    "session_id": (0,),
    "session_epoch": (-1, 0),
    "max_bytes": (1, 1_000, 1 << 20),
    "partition_max_bytes": (1, 1_000, 1 << 20),
    "min_bytes": (0, 1),
    "timestamp": (-1, -2, -3, 0, 1_700_000_000_000),
    "timeout_ms": (0, 100, 1_000),
}
"""Values that pass the first checks, by field name."""
