"""The shape every client is given: what a scenario may ask, in words that belong to none of them.

Every error a broker answers comes out as ``Refused`` with Kafka's number, whatever the client calls it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

Headers = Sequence[tuple[str, bytes | None]]

EARLIEST = -2
LATEST = -1


class Refused(Exception):
    """The broker said no; ``code`` is Kafka's error code."""

    def __init__(self, code: int, words: object = "") -> None:
        super().__init__(f"error {code}: {words}")
        self.code = code


class Message(NamedTuple):
    """What is produced."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None
    partition: int | None = 0


class Received(NamedTuple):
    """What is consumed."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int


class Reader(Protocol):
    """A consumer with assigned partitions; positioned once it exists."""

    def read(self, count: int, within_seconds: float = 20) -> list[Received]:
        """At most ``count`` records; fewer if no more came in time."""

    def close(self) -> None:
        """Let go of the connection."""


class Producing(Protocol):
    """A producer that stays connected."""

    def send(self, topic: str, message: Message) -> int:
        """Produce one record and wait for its offset."""

    def close(self) -> None:
        """Flush and let go of the connection."""


class Client(Protocol):
    """One client library."""

    name: str

    def close(self) -> None:
        """Close everything that was opened."""

    def create_topic(self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        """Create a topic with one replica."""

    def delete_topic(self, topic: str) -> None:
        """Delete a topic."""

    def list_topics(self) -> set[str]:
        """The names of all topics."""

    def partitions_of(self, topic: str) -> list[int]:
        """The partition numbers of a topic, sorted."""

    def create_partitions(self, topic: str, total: int) -> None:
        """Let a topic have so many partitions."""

    def describe_configs(self, topic: str) -> dict[str, str | None]:
        """All settings of a topic."""

    def alter_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        """Change settings of a topic."""

    def describe_broker_configs(self) -> dict[str, str | None]:
        """All settings of the broker."""

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
        """Produce all and wait; gives their offsets. What is None is left at the client's default."""

    def producing(self) -> Producing:
        """A producer of its own, with default settings."""

    def reading(
        self,
        topic: str,
        partitions: Sequence[int] = (0,),
        *,
        start: int = EARLIEST,
        reset: str = "earliest",
        wait_ms: int | None = None,
    ) -> Reader:
        """A consumer of these partitions; ``start`` is an offset, EARLIEST or LATEST."""

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        """The offset of the first record that is not older, or None."""

    def offsets(self, topic: str, partition: int = 0) -> tuple[int, int]:
        """The first offset and the one after the last."""

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        """Delete what lies before an offset; gives the new first offset."""


def read_all(
    client: Client, topic: str, count: int, partitions: Sequence[int] = (0,), start: int = EARLIEST
) -> list[Received]:
    """Read ``count`` records from assigned partitions with a reader of its own."""
    reader = client.reading(topic, partitions, start=start)
    try:
        return reader.read(count)
    finally:
        reader.close()
