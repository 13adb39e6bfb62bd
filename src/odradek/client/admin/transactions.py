"""Producers and transactions: who writes, what is open, what hangs; aborted and fenced from outside."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from odradek.client.admin.admin_api import AdminApi
from odradek.client.admin.api_handler import (
    COORDINATOR_MOVED,
    LEADER_MOVED,
    AdminApiHandler,
    ApiError,
    LookupStrategy,
)
from odradek.client.admin.lookup_strategies import at_broker, at_coordinator, at_leader, by_topic
from odradek.client.names import Names, read_names
from odradek.client.network.node_selection import CoordinatorType
from odradek.model.client_errors import UnsupportedVersion
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from odradek.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from odradek.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from odradek.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from odradek.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

NOT_OLD: Final = -1


class ProducerState(NamedTuple):
    """A producer as a partition's leader knows it; ``transaction_start_offset`` is -1 if none is open."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    transaction_start_offset: int


class TransactionListing(NamedTuple):
    """A transactional id among others."""

    transactional_id: str
    producer_id: int
    state: str


class TransactionDescription(NamedTuple):
    """A transactional id as its coordinator knows it; ``start_time_ms`` is -1 while nothing is open."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_time_ms: int
    partitions: frozenset[TopicPartition]


class ProducerIdAndEpoch(NamedTuple):
    """What a fenced transactional id has now; whoever has an older epoch can write no more."""

    producer_id: int
    producer_epoch: int


class TransactionsApi(AdminApi):
    """The producers and transactions of ``Admin``. Brokers from 2.8 (producers) or 3.0 on."""

    async def describe_producers(
        self,
        partitions: Iterable[TopicPartition],
        *,
        broker: int | None = None,
        timeout_s: float | None = None,
    ) -> dict[TopicPartition, list[ProducerState]]:
        """The producers of partitions, as the leader knows them, or the replica of a broker.

        >>> from odradek import Admin, TopicPartition
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> _ = admin.create_topics(["silent"])
        >>> admin.describe_producers([TopicPartition("silent", 0)])[TopicPartition("silent", 0)]
        []
        >>> admin.close()
        """
        leader: LookupStrategy[TopicPartition] = at_leader(lambda partition: partition)
        work: AdminApiHandler[TopicPartition, list[ProducerState]] = AdminApiHandler(
            what="describe producers",
            name=lambda partition: f"partition {partition}",
            route=leader if broker is None else at_broker(lambda _: broker),
            request=lambda keys, timeout_ms: DescribeProducersRequest(
                [TopicRequest(*one) for one in by_topic(keys).items()]
            ),
            read=_read_producers,
            again=LEADER_MOVED if broker is None else frozenset(),
        )
        return await self._driver.run(work, partitions, timeout_s)

    async def list_transactions(
        self,
        *,
        states: Names = (),
        producer_ids: Iterable[int] = (),
        running_longer_than_ms: int = NOT_OLD,
        timeout_s: float | None = None,
    ) -> dict[str, TransactionListing]:
        """All transactional ids, or those in some states (Ongoing, …), with some producer ids, or whose
        transactions are open for longer than a time (brokers from 3.8 on).

        >>> from odradek import Admin
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> admin.list_transactions(states=["PrepareAbort"])
        {}
        >>> admin.close()
        """
        wanted = ListTransactionsRequest(list(states), list(producer_ids), running_longer_than_ms)

        def read(
            brokers: Sequence[int], answer: ListTransactionsResponse
        ) -> Iterable[tuple[int, list[TransactionListing] | ApiError]]:
            listed = [
                TransactionListing(one.transactional_id, one.producer_id, one.transaction_state)
                for one in answer.transaction_states
            ]
            yield brokers[0], ApiError(ErrorCode(answer.error_code)) if answer.error_code else listed

        work: AdminApiHandler[int, list[TransactionListing]] = AdminApiHandler(
            what="list transactions",
            name=lambda broker: f"transactions of broker {broker}",
            route=at_broker(int),
            request=lambda brokers, timeout_ms: wanted,
            read=read,
            again=COORDINATOR_MOVED,
        )
        found = await self._driver.run(work, await self._driver.brokers(timeout_s), timeout_s)
        return {one.transactional_id: one for listed in found.values() for one in listed}

    async def describe_transactions(
        self, transactional_ids: Names, *, timeout_s: float | None = None
    ) -> dict[str, TransactionDescription]:
        """States and partitions of transactional ids.

        >>> from odradek import Admin
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> _ = admin.fence_producers(["scribe"])
        >>> admin.describe_transactions(["scribe"])["scribe"].state
        'Empty'
        >>> admin.close()
        """

        def read(
            ids: Sequence[str], answer: DescribeTransactionsResponse
        ) -> Iterable[tuple[str, TransactionDescription | ApiError]]:
            for one in answer.transaction_states:
                code = ErrorCode(one.error_code)
                yield one.transactional_id, ApiError(code) if code else _described(one)

        work: AdminApiHandler[str, TransactionDescription] = AdminApiHandler(
            what="describe transactions",
            name=transactional_name,
            route=at_coordinator(CoordinatorType.TRANSACTION, str),
            request=lambda ids, timeout_ms: DescribeTransactionsRequest(list(ids)),
            read=read,
            again=COORDINATOR_MOVED,
        )
        ids = read_names(transactional_ids, "transactional_ids")
        return await self._driver.run(work, ids, timeout_s)

    async def abort_transaction(
        self,
        partition: TopicPartition,
        producer_id: int,
        producer_epoch: int,
        *,
        coordinator_epoch: int = -1,
        timeout_s: float | None = None,
    ) -> None:
        """Abort a transaction that hangs in a partition: one that ``describe_producers`` shows open and its
        coordinator does not know. Aborting one that its coordinator knows loses records.

        >>> from odradek import Admin, PartialFailure, TopicPartition
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> try:
        ...     admin.abort_transaction(TopicPartition("nowhere", 0), 1, 0)
        ... except PartialFailure as failed:
        ...     print(failed.code.name)
        UNKNOWN_TOPIC_OR_PARTITION
        >>> admin.close()
        """
        marker = WritableTxnMarker(
            producer_id,
            producer_epoch,
            False,
            [WritableTxnMarkerTopic(partition.topic, [partition.partition])],
            coordinator_epoch,
        )
        work: AdminApiHandler[TopicPartition, None] = AdminApiHandler(
            what=f"abort the transaction of producer {producer_id}",
            name=lambda one: f"partition {one}",
            route=at_leader(lambda one: one),
            request=lambda keys, timeout_ms: WriteTxnMarkersRequest([marker]),
            read=_read_markers,
            again=LEADER_MOVED,
        )
        await self._driver.run(work, [partition], timeout_s)

    async def end_transaction(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        *,
        committed: bool,
        timeout_s: float | None = None,
    ) -> None:
        """Commit or abort a transaction in place of the producer that left it open.

        It has to be that of this id and epoch: a producer that has taken the transactional id over since is
        not disturbed, and the call raises PRODUCER_FENCED or INVALID_PRODUCER_EPOCH.

        >>> from odradek import Admin, PartialFailure
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> try:
        ...     admin.end_transaction("nobody", 1, 0, committed=False)
        ... except PartialFailure as failed:
        ...     print(failed.code.name)
        INVALID_PRODUCER_ID_MAPPING
        >>> admin.close()
        """

        def read(ids: Sequence[str], answer: EndTxnResponse) -> Iterable[tuple[str, ApiError | None]]:
            code = ErrorCode(answer.error_code)
            yield ids[0], ApiError(code) if code else None

        work: AdminApiHandler[str, None] = AdminApiHandler(
            what="commit a transaction" if committed else "abort a transaction",
            name=transactional_name,
            route=at_coordinator(CoordinatorType.TRANSACTION, str),
            request=lambda ids, timeout_ms: EndTxnRequest(ids[0], producer_id, producer_epoch, committed),
            read=read,
            again=COORDINATOR_MOVED | {ErrorCode.CONCURRENT_TRANSACTIONS},
        )
        await self._driver.run(work, [transactional_id], timeout_s)

    async def fence_producers(
        self, transactional_ids: Names, *, timeout_s: float | None = None
    ) -> dict[str, ProducerIdAndEpoch]:
        """Shut out the producers that have these transactional ids now; what they have open is aborted.

        >>> from odradek import Admin
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> admin.fence_producers(["clerk"])["clerk"].producer_epoch >= 0
        True
        >>> admin.close()
        """

        def read(
            ids: Sequence[str], answer: InitProducerIdResponse
        ) -> Iterable[tuple[str, ProducerIdAndEpoch | ApiError]]:
            code = ErrorCode(answer.error_code)
            yield (
                ids[0],
                ApiError(code) if code else ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch),
            )

        work: AdminApiHandler[str, ProducerIdAndEpoch] = AdminApiHandler(
            what="fence producers",
            name=transactional_name,
            route=at_coordinator(CoordinatorType.TRANSACTION, str),
            request=_fencing,
            read=read,
            again=COORDINATOR_MOVED | {ErrorCode.CONCURRENT_TRANSACTIONS},
        )
        ids = read_names(transactional_ids, "transactional_ids")
        return await self._driver.run(work, ids, timeout_s)


def transactional_name(transactional_id: str) -> str:
    """A transactional id as errors call it."""
    return f"transactional id {transactional_id}"


def _fencing(ids: Sequence[str], timeout_ms: int) -> InitProducerIdRequest:
    if len(ids) > 1:
        raise UnsupportedVersion("one transactional id at a time")
    return InitProducerIdRequest(ids[0], timeout_ms)


def _read_producers(
    partitions: Sequence[TopicPartition], answer: DescribeProducersResponse
) -> Iterable[tuple[TopicPartition, list[ProducerState] | ApiError]]:
    for topic in answer.topics:
        for one in topic.partitions:
            partition = TopicPartition(topic.name, one.partition_index)
            if one.error_code:
                yield partition, ApiError(ErrorCode(one.error_code), one.error_message)
                continue
            yield (
                partition,
                [
                    ProducerState(
                        state.producer_id,
                        state.producer_epoch,
                        state.last_sequence,
                        state.last_timestamp,
                        state.coordinator_epoch,
                        state.current_txn_start_offset,
                    )
                    for state in one.active_producers
                ],
            )


def _described(one: TransactionState) -> TransactionDescription:
    return TransactionDescription(
        one.transactional_id,
        one.transaction_state,
        one.producer_id,
        one.producer_epoch,
        one.transaction_timeout_ms,
        one.transaction_start_time_ms,
        frozenset(TopicPartition(topic.topic, number) for topic in one.topics for number in topic.partitions),
    )


def _read_markers(
    partitions: Sequence[TopicPartition], answer: WriteTxnMarkersResponse
) -> Iterable[tuple[TopicPartition, ApiError | None]]:
    for marker in answer.markers:
        for topic in marker.topics:
            for one in topic.partitions:
                code = ErrorCode(one.error_code)
                yield TopicPartition(topic.name, one.partition_index), ApiError(code) if code else None
