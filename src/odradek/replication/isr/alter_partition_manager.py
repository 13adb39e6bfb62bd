"""ISR changes on their way to the controller: AlterPartition requests, and their responses.

Invariants: at most one request is in flight, and at most one change per partition waits or is in flight; a
change is sent until the controller has responded to it, each time with the broker epoch of that moment. It is
kept by topic name, so a topic that is recreated under another id cannot have two.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final, NamedTuple

from odradek.model.client_errors import ClientError
from odradek.model.errors import ErrorCode
from odradek.model.ids import ZERO_TOPIC_ID, TopicId, TopicPartition
from odradek.net.broker_requests import BrokerRequests
from odradek.ports.clock import Clock
from odradek.replication.leader import IsrChange, IsrChangeResult
from odradek.telemetry import events
from odradek.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    BrokerState,
)

VERSION_MAX_WITHOUT_TOPIC_IDS: Final = 1
RETRY_MS: Final = 50
"""Wait before a request is sent again; Kafka's."""
RECOVERY_STATES: Final = (0, 1)

CHANGES_PER_REQUEST: Final = 1_000
"""Changes in one request: others wait for the next one, so that no broker is long busy with any."""

RESULTS_PER_TURN: Final = 200
"""Changes completed before other work gets a turn on the event loop: some 10 ms."""

OnResult = Callable[[IsrChangeResult], None]

log = events.logger("alter_partition")


class QueuedChange(NamedTuple):
    """A change that the controller has not responded to."""

    topic_partition: TopicPartition
    topic_id: TopicId
    change: IsrChange
    on_result: OnResult


class AlterPartitionManager:
    """``uses_topic_ids`` returns whether the cluster's metadata version has topic ids (2.8 and later)."""

    def __init__(
        self,
        broker_id: int,
        broker_epoch: Callable[[], int],
        requests: BrokerRequests,
        clock: Clock,
        timeout_ms: Callable[[], int],
        uses_topic_ids: Callable[[], bool] = lambda: True,
    ) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._requests = requests
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._uses_topic_ids = uses_topic_ids
        self._unsent: dict[TopicPartition, QueuedChange] = {}
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False

    def submit(
        self, topic_partition: TopicPartition, topic_id: TopicId, change: IsrChange, on_result: OnResult
    ) -> None:
        """Send a change; ``on_result`` gets OPERATION_NOT_ATTEMPTED if an earlier one is still on its way."""
        if topic_partition in self._unsent or self._is_closed:
            on_result(IsrChangeResult(ErrorCode.OPERATION_NOT_ATTEMPTED))
            return
        self._unsent[topic_partition] = QueuedChange(topic_partition, topic_id, change, on_result)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Stop sending; changes that were not sent are dropped."""
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        """Send until nothing is left. The changes that arrive during a request go with a later one."""
        while self._unsent:
            must_wait = True
            try:
                must_wait = await self._send(list(islice(self._unsent.values(), CHANGES_PER_REQUEST)))
            except ClientError as error:
                log.warning("alter_partition_failed", reason=str(error))
            except Exception as error:  # noqa: BLE001 - the edge of a task: changes wait for it
                log.failure("alter_partition_crashed", error)
            if must_wait:
                await self._clock.sleep_ms(RETRY_MS)
        self._task = None

    async def _send(self, changes: list[QueuedChange]) -> bool:
        """Send one request and apply its response; return whether the next one must wait."""
        has_topic_ids = self._uses_topic_ids() and all(change.topic_id != ZERO_TOPIC_ID for change in changes)
        response: AlterPartitionResponse = await self._requests.send_to_controller(
            build_request(self._broker_id, self._broker_epoch(), changes),
            self._timeout_ms(),
            version_max=None if has_topic_ids else VERSION_MAX_WITHOUT_TOPIC_IDS,
        )
        if response.error_code:
            log.warning("alter_partition_failed", reason=ErrorCode(response.error_code).name)
            return True
        results = read_results(response, changes)
        for number, change in enumerate(changes, 1):
            if number % RESULTS_PER_TURN == 0:
                await asyncio.sleep(0)
            result = results.get(change.topic_partition)
            if result is None:
                log.warning("alter_partition_incomplete", partition=change.topic_partition)
                self._unsent[change.topic_partition] = self._unsent.pop(
                    change.topic_partition
                )  # after others
                continue
            # Before the callback, which may submit the next change.
            del self._unsent[change.topic_partition]
            change.on_result(result)
        return len(results) < len(changes) or any(result.error for result in results.values())


def build_request(
    broker_id: int, broker_epoch: int, changes: Iterable[QueuedChange]
) -> AlterPartitionRequest:
    """Return a request that can be encoded in every version, with topics by name and by id."""
    request = AlterPartitionRequest(broker_id, broker_epoch)
    topics: dict[str, AlterPartitionRequestTopicData] = {}
    for (topic, number), topic_id, change, _ in changes:
        if topic not in topics:
            topics[topic] = AlterPartitionRequestTopicData(topic, topic_id, [])
        topics[topic].partitions.append(
            AlterPartitionRequestPartitionData(
                number,
                change.leader_epoch,
                list(change.isr),
                # Broker epochs in the ISR are KRaft's.
                [BrokerState(member, -1) for member in change.isr],
                change.leader_recovery_state,
                change.partition_epoch,
            )
        )
    request.topics = list(topics.values())
    return request


def read_results(
    response: AlterPartitionResponse, changes: Iterable[QueuedChange]
) -> dict[TopicPartition, IsrChangeResult]:
    """Return the results of the changes that a response contains."""
    changes = list(changes)
    names = {change.topic_id: change.topic_partition.topic for change in changes}
    requested = {change.topic_partition for change in changes}
    results = {}
    for topic in response.topics:
        name = topic.topic_name or names.get(topic.topic_id)
        for partition in topic.partitions:
            topic_partition = TopicPartition(name or "", partition.partition_index)
            if topic_partition in requested:
                results[topic_partition] = _result(partition)
    return results


def _result(partition: AlterPartitionResponsePartitionData) -> IsrChangeResult:
    if partition.error_code:
        return IsrChangeResult(ErrorCode(partition.error_code))
    if partition.leader_recovery_state not in RECOVERY_STATES:
        return IsrChangeResult(ErrorCode.UNKNOWN_SERVER_ERROR)
    return IsrChangeResult(
        ErrorCode.NONE, tuple(partition.isr), partition.leader_epoch, partition.partition_epoch
    )
