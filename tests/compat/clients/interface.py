"""Common interface of all clients.

Every error response is raised as ``ErrorResponse`` with Kafka's error code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

Headers = Sequence[tuple[str, bytes | None]]

DEFAULT_REPLICAS = -1
EARLIEST = -2
LATEST = -1


class ErrorResponse(Exception):
    """Raised for an error response; ``code`` is Kafka's error code."""

    def __init__(self, code: int, words: object = "") -> None:
        super().__init__(f"error {code}: {words}")
        self.code = code


class Message(NamedTuple):
    """Record to produce."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None
    partition: int | None = 0


class Received(NamedTuple):
    """Consumed record."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int


class Reader(Protocol):
    """Consumer with assigned partitions and resolved start positions."""

    def read(self, count: int, within_seconds: float = 20) -> list[Received]:
        """Return at most ``count`` records, fewer on timeout."""

    def close(self) -> None:
        """Close the connection."""


class ProducerHandle(Protocol):
    """Producer that stays connected."""

    def send(self, topic: str, message: Message) -> int:
        """Produce one record and wait for its offset."""

    def close(self) -> None:
        """Flush and close the connection."""


class Client(Protocol):
    """Client library."""

    name: str

    def close(self) -> None:
        """Close everything that was opened."""

    def create_topic(self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        """Create a topic with the default number of replicas."""

    def delete_topic(self, topic: str) -> None:
        """Delete a topic."""

    def list_topics(self) -> set[str]:
        """Return the names of all topics."""

    def partitions_of(self, topic: str) -> list[int]:
        """Return the partition numbers of a topic, sorted."""

    def create_partitions(self, topic: str, total: int) -> None:
        """Increase the partitions of a topic to ``total``."""

    def describe_configs(self, topic: str) -> dict[str, str | None]:
        """Return all configs of a topic."""

    def alter_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        """Alter configs of a topic."""

    def describe_broker_configs(self) -> dict[str, str | None]:
        """Return all configs of the broker with the lowest id."""

    def produce(
        self,
        topic: str,
        messages: Sequence[Message],
        *,
        compression: str | None = None,
        acks: int | None = None,
        idempotent: bool | None = None,
        bytes_max: int | None = None,
    ) -> list[int]:
        """Produce all and wait; return their offsets. None keeps the client's default."""

    def open_producer(self) -> ProducerHandle:
        """Return a new producer with default settings."""

    def open_reader(
        self,
        topic: str,
        partitions: Sequence[int] = (0,),
        *,
        start: int = EARLIEST,
        reset: str = "earliest",
        wait_ms: int | None = None,
    ) -> Reader:
        """Return a consumer of these partitions; ``start`` is an offset, EARLIEST or LATEST."""

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        """Return the offset of the first record that is not older, or None."""

    def offsets(self, topic: str, partition: int = 0) -> tuple[int, int]:
        """Return the beginning and end offset."""

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        """Delete records before an offset; return the new beginning offset."""


def read_all(
    client: Client, topic: str, count: int, partitions: Sequence[int] = (0,), start: int = EARLIEST
) -> list[Received]:
    """Read ``count`` records from assigned partitions with a new consumer."""
    reader = client.open_reader(topic, partitions, start=start)
    try:
        return reader.read(count)
    finally:
        reader.close()
