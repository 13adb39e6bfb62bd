"""Automatic topic creation through the controller, by a broker that is not the controller.

A CreateTopics request is sent in the background, one per topic at a time. Clients retry Metadata meanwhile.
The request is repeated while the controller moves, until ``request.timeout.ms``, as Kafka's brokers do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from odradek.broker.topics.topic_planning import DEFAULT, NewTopic
from odradek.cluster.topic_names import check_topic_name
from odradek.config import broker as settings
from odradek.config.definition import Settings
from odradek.model.client_errors import ClientError, ConnectionFailed
from odradek.model.errors import BrokerError, ErrorCode
from odradek.net.broker_requests import BrokerRequests
from odradek.ports.clock import Clock
from odradek.telemetry import events
from odradek.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

IN_FLIGHT_MAX: Final = 1_000
"""Topics being created; clients retry the others."""
RETRY_MS: Final = 100

log = events.logger("auto_topic_creation")


class Attempt(NamedTuple):
    """Outcome of one request: the problem, or None, and whether another controller may be found soon."""

    problem: str | None = None
    must_repeat: bool = False


class ControllerTopicCreation:
    def __init__(self, requests: BrokerRequests, is_controller: Callable[[], bool], clock: Clock) -> None:
        self._requests = requests
        self._is_controller = is_controller
        self._clock = clock
        self._in_flight: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def is_needed(self) -> bool:
        """True while the controller is another broker."""
        return not self._is_controller()

    def start(self, topics: Iterable[NewTopic], values: Settings) -> dict[str, ErrorCode]:
        """Start creating topics; return errors of those that cannot be."""
        errors: dict[str, ErrorCode] = {}
        for topic in topics:
            try:
                check_topic_name(topic.name)
            except BrokerError as error:
                errors[topic.name] = error.code
                continue
            if topic.name not in self._in_flight and len(self._in_flight) < IN_FLIGHT_MAX:
                self._in_flight.add(topic.name)
                task = asyncio.get_running_loop().create_task(self._create(topic, values))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        return errors

    async def create(self, topic: NewTopic, values: Settings) -> str | None:
        """Create a topic; return the problem, or None."""
        # Timeout 0: the connection is shared, and whether the topic is there is seen in metadata updates.
        request = CreateTopicsRequest(topics=[_creatable_topic(topic, values)], timeout_ms=0)
        deadline_ms = self._clock.monotonic_ms() + values[settings.REQUEST_TIMEOUT_MS]
        while True:
            problem, must_repeat = await self._attempt(request, deadline_ms - self._clock.monotonic_ms())
            if not must_repeat or self._clock.monotonic_ms() + RETRY_MS >= deadline_ms:
                return problem
            await self._clock.sleep_ms(RETRY_MS)

    async def stop(self) -> None:
        """Give up what is being created."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _attempt(self, request: CreateTopicsRequest, timeout_ms: int) -> Attempt:
        try:
            response = await self._requests.send_to_controller(request, timeout_ms)
        except ClientError as error:
            return Attempt(str(error), isinstance(error, ConnectionFailed))
        for result in response.topics:
            code = ErrorCode(result.error_code)
            if code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.REQUEST_TIMED_OUT):
                return Attempt(result.error_message or code.name, code == ErrorCode.NOT_CONTROLLER)
        return Attempt()

    async def _create(self, topic: NewTopic, values: Settings) -> None:
        try:
            problem = await self.create(topic, values)
        finally:
            self._in_flight.discard(topic.name)
        if problem is not None:
            log.warning("topic_not_created", topic=topic.name, reason=problem)


def _creatable_topic(topic: NewTopic, values: Settings) -> CreatableTopic:
    partitions, replication_factor = topic.partitions, topic.replication_factor
    if partitions == DEFAULT:
        partitions = values[settings.NUM_PARTITIONS]
    if replication_factor == DEFAULT:
        replication_factor = values[settings.DEFAULT_REPLICATION_FACTOR]
    return CreatableTopic(
        topic.name,
        partitions,
        replication_factor,
        configs=[CreatableTopicConfig(name, value) for name, value in topic.settings.items()],
    )
