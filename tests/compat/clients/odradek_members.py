"""Group members with our own consumers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.compat.clients.aiokafka import LoopThread
from tests.compat.clients.group_members import HEARTBEAT_MS, SESSION_MS, GroupMember
from tests.compat.clients.interface import Received

import odradek
from odradek import aio


def options(bootstrap: str, group: str, strategy: str, instance: str | None) -> dict[str, Any]:
    return {
        "bootstrap_servers": bootstrap,
        "group_id": group,
        "group_instance_id": instance,
        "partition_assignment_strategy": strategy,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "session_timeout_ms": SESSION_MS,
        "heartbeat_interval_ms": HEARTBEAT_MS,
    }


class BlockingMember:
    """``odradek.Consumer``."""

    def __init__(
        self, bootstrap: str, group: str, topic: str, *, strategy: str = "range", instance: str | None = None
    ) -> None:
        self._consumer = odradek.Consumer(**options(bootstrap, group, strategy, instance))
        self._consumer.subscribe([topic])

    def poll(self, seconds: float) -> list[Received]:
        return received(self._consumer.poll(seconds))

    def assigned(self) -> set[int]:
        return {item.partition for item in self._consumer.assignment()}

    def commit(self) -> None:
        self._consumer.commit()

    def close(self) -> None:
        self._consumer.close()


class AioMember:
    """``odradek.aio.Consumer``."""

    def __init__(
        self, bootstrap: str, group: str, topic: str, *, strategy: str = "range", instance: str | None = None
    ) -> None:
        self._loop = LoopThread()
        self._consumer = self._loop.run(self._begin(topic, options(bootstrap, group, strategy, instance)))

    @staticmethod
    async def _begin(topic: str, specified: dict[str, Any]) -> aio.Consumer:
        consumer = aio.Consumer(**specified)
        await consumer.start()
        consumer.subscribe([topic])
        return consumer

    def poll(self, seconds: float) -> list[Received]:
        return received(self._loop.run(self._consumer.poll(seconds)))

    def assigned(self) -> set[int]:
        return {item.partition for item in self._consumer.assignment()}

    def commit(self) -> None:
        self._loop.run(self._consumer.commit())

    def close(self) -> None:
        self._loop.run(self._consumer.close())
        self._loop.close()


def received(records: Sequence[odradek.ConsumerRecord]) -> list[Received]:
    return [
        Received(record.partition, record.offset, record.key, record.value, (), record.timestamp)
        for record in records
    ]


OURS: dict[str, Callable[..., GroupMember]] = {"blocking": BlockingMember, "aio": AioMember}
