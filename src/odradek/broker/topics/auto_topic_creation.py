"""Topics that belong to the brokers themselves: what they are made like, and made when first needed.

Whoever needs one does not wait: it is told to come again, and the topic is made meanwhile. Too few live
brokers for its replicas mean that it is tried again with the next need.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from odradek.broker.topics.topic_planning import NewTopic
from odradek.config import broker as settings
from odradek.config.definition import Settings
from odradek.model.ids import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from odradek.store.port import StoreError
from odradek.telemetry import events

log = events.logger("auto_topic_creation")


def plan_automatic(name: str, values: Settings) -> NewTopic:
    """A topic nobody described; the brokers' own ones have settings of their own."""
    if name == OFFSETS_TOPIC:
        return NewTopic(
            name,
            values[settings.OFFSETS_TOPIC_NUM_PARTITIONS],
            values[settings.OFFSETS_TOPIC_REPLICATION_FACTOR],
            settings={
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(values[settings.OFFSETS_TOPIC_SEGMENT_BYTES]),
            },
        )
    if name == TRANSACTIONS_TOPIC:
        return NewTopic(
            name,
            values[settings.TRANSACTION_STATE_LOG_NUM_PARTITIONS],
            values[settings.TRANSACTION_STATE_LOG_REPLICATION_FACTOR],
            settings={
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": str(values[settings.TRANSACTION_STATE_LOG_MIN_ISR]),
                "segment.bytes": str(values[settings.TRANSACTION_STATE_LOG_SEGMENT_BYTES]),
                "unclean.leader.election.enable": "false",
            },
        )
    return NewTopic(name)


class OwnTopic:
    """One of them. ``create`` gives why it could not be made, or None."""

    def __init__(self, name: str, create: Callable[[str], Awaitable[str | None]]) -> None:
        self._name = name
        self._create = create
        self._making: asyncio.Task[None] | None = None
        self._problem: str | None = None
        self._is_stopped = False

    def need(self) -> None:
        """Have the topic made, if that is not under way."""
        if self._making is None and not self._is_stopped:
            self._making = asyncio.get_running_loop().create_task(self._make())

    async def stop(self) -> None:
        self._is_stopped = True
        if self._making is not None:
            self._making.cancel()
            await asyncio.gather(self._making, return_exceptions=True)

    async def _make(self) -> None:
        try:
            problem = await self._create(self._name)
        except StoreError as failed:
            problem = str(failed)
        except Exception as broken:  # noqa: BLE001 - the edge of a task
            log.failure("topic_creation_crashed", broken, topic=self._name)
            return
        finally:
            self._making = None
        if problem is not None and problem != self._problem:  # clients ask again and again: told once
            log.warning("topic_not_created", topic=self._name, reason=problem)
        self._problem = problem
