"""An honest client, which must be served whatever other clients send."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.kio_requests import (
    create_topic,
    fetch_request,
    fetched_partition,
    metadata_request,
    produce_request,
    produced_partition,
)
from tests.support.raw_connection import RawConnection
from tests.support.record_batches import HandMadeBatch, record

TOPIC = "canary"
SETTINGS = {"min.insync.replicas": "1", "compression.type": "producer", "cleanup.policy": "delete"}

Connect = Callable[[], RawConnection]


class Canary:
    """Produces and fetches on one connection, which stays open."""

    def __init__(self, connect: Connect, seed: int) -> None:
        self.connection = connect()
        self._seed = seed
        self._offset = 0

    def create_topic(self) -> None:
        create_topic(self.connection, TOPIC, dict(SETTINGS))

    def check(self) -> None:
        """Produce a record and fetch it; raises AssertionError, ConnectionEnded or OSError."""
        value = f"canary {self._seed} {self._offset}".encode()
        batch = HandMadeBatch(records=[record(0, value)]).build()
        produced = produced_partition(self.connection.exchange(produce_request(TOPIC, batch)))
        assert produced.error_code == 0, produced
        assert produced.base_offset == self._offset, produced
        fetched = fetched_partition(self.connection.exchange(fetch_request(TOPIC, self._offset)))
        assert value in bytes(fetched.records or b""), fetched
        assert self.connection.exchange(metadata_request(TOPIC)).topics[0].error_code == 0
        self._offset += 1

    def close(self) -> None:
        self.connection.close()
