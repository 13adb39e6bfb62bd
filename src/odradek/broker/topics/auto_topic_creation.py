"""Automatic topic creation: settings of internal topics, and their creation on first use.

Requests do not wait for an internal topic: clients retry while it is created. A creation that failed, for
instance with too few live brokers, is tried again by the next request.
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


def plan_auto_created_topic(name: str, values: Settings) -> NewTopic:
    """Return the topic to auto-create under ``name``; internal topics have their own settings."""
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


class AutoTopicCreation:
    """Creation of one internal topic. ``create`` returns the problem, or None."""

    def __init__(self, name: str, create: Callable[[str], Awaitable[str | None]]) -> None:
        self._name = name
        self._create = create
        self._task: asyncio.Task[None] | None = None
        self._problem: str | None = None
        self._is_stopped = False

    def ensure_created(self) -> None:
        """Start creating the topic, unless that is in progress."""
        if self._task is None and not self._is_stopped:
            self._task = asyncio.get_running_loop().create_task(self._create_topic())

    async def stop(self) -> None:
        self._is_stopped = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _create_topic(self) -> None:
        try:
            problem = await self._create(self._name)
        except StoreError as error:
            problem = str(error)
        except Exception as error:  # noqa: BLE001 - the edge of a task
            log.failure("topic_creation_crashed", error, topic=self._name)
            return
        finally:
            self._task = None
        if problem is not None and problem != self._problem:  # clients retry: logged once
            log.warning("topic_not_created", topic=self._name, reason=problem)
        self._problem = problem
