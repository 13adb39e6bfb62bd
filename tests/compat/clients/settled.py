"""A client of a cluster, whose changes of topics have reached every broker when they return.

A broker answers such a request once it has made the change itself. The others hear of it from the controller
or from the store a moment later, with Apache Kafka too. Applications retry or wait; tests would become longer
by that, and say less. For the same reason records are written with acks=all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from tests.compat.clients.interface import Client, Message
from tests.support.kio_requests import topic_configs, topic_leaders

SECONDS_MAX = 30.0
POLL_SECONDS = 0.02
NO_BROKER = -1
ALL = -1


def settle(client: Client, bootstrap: str) -> Client:
    """Return the client itself for one broker, else a client that waits for all of them."""
    addresses = bootstrap.split(",")
    return client if len(addresses) == 1 else cast(Client, SettledClient(client, addresses))


class SettledClient:
    """Delegates everything, and waits after changes of topics."""

    def __init__(self, client: Client, addresses: list[str]) -> None:
        self._client = client
        self._addresses = addresses

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def create_topic(self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        self._client.create_topic(topic, partitions, configs)
        self._wait(lambda address: self._is_led(address, topic, partitions))

    def create_partitions(self, topic: str, total: int) -> None:
        self._client.create_partitions(topic, total)
        self._wait(lambda address: self._is_led(address, topic, total))

    def delete_topic(self, topic: str) -> None:
        self._client.delete_topic(topic)
        self._wait(lambda address: topic_leaders(address, topic) is None)

    def alter_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        self._client.alter_configs(topic, configs)
        self._wait(lambda address: configs.items() <= topic_configs(address, topic).items())

    def produce(
        self, topic: str, messages: Sequence[Message], *, acks: int | None = None, **how: Any
    ) -> list[int]:
        """Produce with acks=all unless a test chooses: what only the leader has is not to be read yet."""
        return self._client.produce(topic, messages, acks=ALL if acks is None else acks, **how)

    @staticmethod
    def _is_led(address: str, topic: str, partitions: int) -> bool:
        leaders = topic_leaders(address, topic)
        return leaders is not None and len(leaders) == partitions and NO_BROKER not in leaders.values()

    def _wait(self, is_reached: Callable[[str], bool]) -> None:
        deadline = time.monotonic() + SECONDS_MAX
        for address in self._addresses:
            while not is_reached(address):
                assert time.monotonic() < deadline, f"{address} must know of the change in {SECONDS_MAX} s"
                time.sleep(POLL_SECONDS)
