"""Verification of partitions with the coordinator of a transactional id, on whichever broker it is.

A coordinator on another broker gets one AddPartitionsToTxn request at a time, with all transactions that wait
for it. Of two requests for the same transactional id, the one with the newer epoch is sent; with equal epochs
the later one, because the producer has probably given up the other.

Invariant: each reply is called once, later than ``submit`` returns if the coordinator is on another broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, Protocol

from odradek.coordinators.transactions.commands import AddPartitions, AddPartitionsResult
from odradek.model.client_errors import ClientError, UnsupportedVersion
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.ids import TopicPartition
from odradek.net.api_versions import RequestBuilder
from odradek.net.broker_requests import BrokerRequests
from odradek.telemetry import events
from odradek.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

VERIFY_ONLY_SINCE: Final = 4
"""First version of AddPartitionsToTxn for brokers."""

Reply = Callable[[AddPartitionsResult], None]

log = events.logger("transaction_verification")


class LocalCoordinator(Protocol):
    """The transaction coordinator of this broker, which also finds those of other ids."""

    def coordinator_id(self, transactional_id: str) -> int | None: ...

    def submit(self, transactional_id: str, command: AddPartitions, reply: Reply) -> None: ...


class VerificationRequests:
    """Submits commands to the coordinator of their transactional id, here or on another broker."""

    def __init__(
        self,
        broker_id: int,
        coordinator: LocalCoordinator,
        requests: BrokerRequests,
        timeout_ms: Callable[[], int],
    ) -> None:
        self._broker_id = broker_id
        self._coordinator = coordinator
        self._requests = requests
        self._timeout_ms = timeout_ms
        self._queues: dict[int, _CoordinatorQueue] = {}
        self._is_stopped = False

    def submit(self, transactional_id: str, command: AddPartitions, reply: Reply) -> None:
        """Submit a command that only verifies. Raises ``BrokerError`` if no coordinator is known."""
        coordinator_id = self._coordinator.coordinator_id(transactional_id)
        if coordinator_id == self._broker_id:
            self._coordinator.submit(transactional_id, command, reply)
            return
        if coordinator_id is None or self._is_stopped:
            raise BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        queue = self._queues.get(coordinator_id)
        if queue is None:
            queue = self._queues[coordinator_id] = _CoordinatorQueue(
                coordinator_id, self._requests, self._timeout_ms
            )
        queue.add(command, reply)

    async def stop(self) -> None:
        """Fail the verifications that wait for other brokers."""
        self._is_stopped = True
        for queue in list(self._queues.values()):
            await queue.stop()


class _Verification(NamedTuple):
    command: AddPartitions
    reply: Reply

    def fail(self, code: ErrorCode) -> None:
        self.complete(dict.fromkeys(self.command.partitions, code))

    def complete(self, codes: Mapping[TopicPartition, ErrorCode]) -> None:
        try:
            self.reply(AddPartitionsResult(codes))
        except Exception as error:  # noqa: BLE001 - other transactions wait for the same response
            log.failure("verified_write_crashed", error, transactional_id=self.command.transactional_id)


class _CoordinatorQueue:
    """Verifications with the coordinators of one other broker."""

    def __init__(self, broker_id: int, requests: BrokerRequests, timeout_ms: Callable[[], int]) -> None:
        self._broker_id = broker_id
        self._requests = requests
        self._timeout_ms = timeout_ms
        self._waiting: dict[str, _Verification] = {}
        """By transactional id; what is sent is no longer here."""
        self._task: asyncio.Task[None] | None = None

    def add(self, command: AddPartitions, reply: Reply) -> None:
        verification = _Verification(command, reply)
        waiting = self._waiting.get(command.transactional_id)
        if waiting is not None and waiting.command.producer_epoch > command.producer_epoch:
            # Not at once: replies are called later.
            asyncio.get_running_loop().call_soon(verification.fail, ErrorCode.INVALID_PRODUCER_EPOCH)
            return
        self._waiting[command.transactional_id] = verification
        if waiting is not None:
            is_fenced = waiting.command.producer_epoch < command.producer_epoch
            waiting.fail(ErrorCode.INVALID_PRODUCER_EPOCH if is_fenced else ErrorCode.NETWORK_EXCEPTION)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        task = self._task
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        sent: dict[str, _Verification] = {}
        try:
            while self._waiting:
                sent, self._waiting = self._waiting, {}
                codes = await self._send([verification.command for verification in sent.values()])
                verifications, sent = sent, {}
                for transactional_id, verification in verifications.items():
                    verification.complete(codes[transactional_id])
        finally:
            self._task = None
            unanswered = [*sent.values(), *self._waiting.values()]
            self._waiting = {}
            for verification in unanswered:
                verification.fail(ErrorCode.NETWORK_EXCEPTION)

    async def _send(
        self, commands: Iterable[AddPartitions]
    ) -> Mapping[str, Mapping[TopicPartition, ErrorCode]]:
        """Send one request; return the error codes by transactional id."""
        by_id = {command.transactional_id: command for command in commands}
        try:
            response = await self._requests.send(
                self._broker_id,
                RequestBuilder(AddPartitionsToTxnRequest, lambda version: _build(by_id.values(), version)),
                self._timeout_ms(),
            )
        except UnsupportedVersion as error:
            # An older broker in a rolling upgrade cannot verify: the writes go on without.
            log.warning("verification_skipped", broker=self._broker_id, reason=str(error))
            return {transactional_id: {} for transactional_id in by_id}
        except ClientError as error:
            log.warning("verification_failed", broker=self._broker_id, reason=str(error))
            return _same_for_all(by_id, ErrorCode.NETWORK_EXCEPTION)
        except Exception as error:  # noqa: BLE001 - the writes must not wait for ever
            log.failure("verification_crashed", error, broker=self._broker_id)
            return _same_for_all(by_id, ErrorCode.UNKNOWN_SERVER_ERROR)
        return _codes(response, by_id)


def _same_for_all(
    by_id: Mapping[str, AddPartitions], code: ErrorCode
) -> dict[str, Mapping[TopicPartition, ErrorCode]]:
    return {
        transactional_id: dict.fromkeys(command.partitions, code)
        for transactional_id, command in by_id.items()
    }


def _build(commands: Iterable[AddPartitions], version: int) -> AddPartitionsToTxnRequest:
    if version < VERIFY_ONLY_SINCE:
        raise UnsupportedVersion(f"AddPartitionsToTxn verifies since version 4, got {version}")
    return AddPartitionsToTxnRequest([_transaction(command) for command in commands])


def _transaction(command: AddPartitions) -> AddPartitionsToTxnTransaction:
    topics: dict[str, AddPartitionsToTxnTopic] = {}
    for topic, number in command.partitions:
        topics.setdefault(topic, AddPartitionsToTxnTopic(topic, [])).partitions.append(number)
    return AddPartitionsToTxnTransaction(
        command.transactional_id, command.producer_id, command.producer_epoch, True, list(topics.values())
    )


def _codes(
    response: AddPartitionsToTxnResponse, by_id: Mapping[str, AddPartitions]
) -> dict[str, Mapping[TopicPartition, ErrorCode]]:
    error = ErrorCode(response.error_code)
    if error:
        # Clients do not know the errors of requests between brokers.
        is_hidden = error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return _same_for_all(by_id, ErrorCode.INVALID_TXN_STATE if is_hidden else error)
    codes = _same_for_all(by_id, ErrorCode.UNKNOWN_SERVER_ERROR)  # of transactions that are missing
    for result in response.results_by_transaction:
        codes[result.transactional_id] = {
            TopicPartition(topic.name, entry.partition_index): ErrorCode(entry.partition_error_code)
            for topic in result.topic_results
            for entry in topic.results_by_partition
        }
    return codes
