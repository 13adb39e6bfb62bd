"""Admin API of producers and transactions: listing, aborting, fencing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from odradek.client.admin.api_driver import AdminApi
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

ANY_DURATION: Final = -1


class ProducerState(NamedTuple):
    """State of a producer in a partition; ``transaction_start_offset`` is -1 without an open transaction."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    transaction_start_offset: int


class TransactionListing(NamedTuple):
    """A listed transactional id."""

    transactional_id: str
    producer_id: int
    state: str


class TransactionDescription(NamedTuple):
    """State of a transactional id; ``start_time_ms`` is -1 without an open transaction."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_time_ms: int
    partitions: frozenset[TopicPartition]


class ProducerIdAndEpoch(NamedTuple):
    """Producer id and epoch of a fenced transactional id; older epochs can no longer write."""

    producer_id: int
    producer_epoch: int


class TransactionsApi(AdminApi):
    """Producer and transaction methods of ``Admin``. Brokers since 2.8 (producers) or 3.0."""

    async def describe_producers(
        self,
        partitions: Iterable[TopicPartition],
        *,
        broker: int | None = None,
        timeout_s: float | None = None,
    ) -> dict[TopicPartition, list[ProducerState]]:
        """Return the producers of partitions, from the leader or from the replica on a broker.

        >>> from odradek import Admin, TopicPartition
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> _ = admin.create_topics(["silent"])
        >>> admin.describe_producers([TopicPartition("silent", 0)])[TopicPartition("silent", 0)]
        []
        >>> admin.close()
        """
        leader: LookupStrategy[TopicPartition] = at_leader(lambda partition: partition)
        handler: AdminApiHandler[TopicPartition, list[ProducerState]] = AdminApiHandler(
            call="describe producers",
            key_name=lambda partition: f"partition {partition}",
            lookup=leader if broker is None else at_broker(lambda _: broker),
            build_request=lambda keys, timeout_ms: DescribeProducersRequest(
                [TopicRequest(*topic) for topic in by_topic(keys).items()]
            ),
            read_response=_read_producers,
            retry_codes=LEADER_MOVED if broker is None else frozenset(),
        )
        return await self._driver.run(handler, partitions, timeout_s)

    async def list_transactions(
        self,
        *,
        states: Names = (),
        producer_ids: Iterable[int] = (),
        running_longer_than_ms: int = ANY_DURATION,
        timeout_s: float | None = None,
    ) -> dict[str, TransactionListing]:
        """Return all transactional ids, or those in some states (Ongoing, …), with some producer ids, or with
        transactions open for longer than a time (brokers since 3.8).

        >>> from odradek import Admin
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> admin.list_transactions(states=["PrepareAbort"])
        {}
        >>> admin.close()
        """
        request = ListTransactionsRequest(list(states), list(producer_ids), running_longer_than_ms)

        def read(
            brokers: Sequence[int], response: ListTransactionsResponse
        ) -> Iterable[tuple[int, list[TransactionListing] | ApiError]]:
            listed = [
                TransactionListing(state.transactional_id, state.producer_id, state.transaction_state)
                for state in response.transaction_states
            ]
            yield brokers[0], ApiError(ErrorCode(response.error_code)) if response.error_code else listed

        handler: AdminApiHandler[int, list[TransactionListing]] = AdminApiHandler(
            call="list transactions",
            key_name=lambda broker: f"transactions of broker {broker}",
            lookup=at_broker(int),
            build_request=lambda brokers, timeout_ms: request,
            read_response=read,
            retry_codes=COORDINATOR_MOVED,
        )
        by_broker = await self._driver.run(handler, await self._driver.brokers(timeout_s), timeout_s)
        return {listing.transactional_id: listing for listed in by_broker.values() for listing in listed}

    async def describe_transactions(
        self, transactional_ids: Names, *, timeout_s: float | None = None
    ) -> dict[str, TransactionDescription]:
        """Return states and partitions of transactional ids.

        >>> from odradek import Admin
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> _ = admin.fence_producers(["scribe"])
        >>> admin.describe_transactions(["scribe"])["scribe"].state
        'Empty'
        >>> admin.close()
        """

        def read(
            ids: Sequence[str], response: DescribeTransactionsResponse
        ) -> Iterable[tuple[str, TransactionDescription | ApiError]]:
            for state in response.transaction_states:
                code = ErrorCode(state.error_code)
                yield state.transactional_id, ApiError(code) if code else _described(state)

        handler: AdminApiHandler[str, TransactionDescription] = AdminApiHandler(
            call="describe transactions",
            key_name=transactional_name,
            lookup=at_coordinator(CoordinatorType.TRANSACTION, str),
            build_request=lambda ids, timeout_ms: DescribeTransactionsRequest(list(ids)),
            read_response=read,
            retry_codes=COORDINATOR_MOVED,
        )
        ids = read_names(transactional_ids, "transactional_ids")
        return await self._driver.run(handler, ids, timeout_s)

    async def abort_transaction(
        self,
        partition: TopicPartition,
        producer_id: int,
        producer_epoch: int,
        *,
        coordinator_epoch: int = -1,
        timeout_s: float | None = None,
    ) -> None:
        """Abort a hanging transaction in a partition: one that ``describe_producers`` shows as open and its
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
        handler: AdminApiHandler[TopicPartition, None] = AdminApiHandler(
            call=f"abort the transaction of producer {producer_id}",
            key_name=lambda key: f"partition {key}",
            lookup=at_leader(lambda key: key),
            build_request=lambda keys, timeout_ms: WriteTxnMarkersRequest([marker]),
            read_response=_read_markers,
            retry_codes=LEADER_MOVED,
        )
        await self._driver.run(handler, [partition], timeout_s)

    async def end_transaction(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        *,
        committed: bool,
        timeout_s: float | None = None,
    ) -> None:
        """Commit or abort a transaction that a producer left open.

        Only for this producer id and epoch: if another producer has taken over the transactional id, the call
        fails with PRODUCER_FENCED or INVALID_PRODUCER_EPOCH.

        >>> from odradek import Admin, PartialFailure
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> try:
        ...     admin.end_transaction("nobody", 1, 0, committed=False)
        ... except PartialFailure as failed:
        ...     print(failed.code.name)
        INVALID_PRODUCER_ID_MAPPING
        >>> admin.close()
        """

        def read(ids: Sequence[str], response: EndTxnResponse) -> Iterable[tuple[str, ApiError | None]]:
            code = ErrorCode(response.error_code)
            yield ids[0], ApiError(code) if code else None

        handler: AdminApiHandler[str, None] = AdminApiHandler(
            call="commit a transaction" if committed else "abort a transaction",
            key_name=transactional_name,
            lookup=at_coordinator(CoordinatorType.TRANSACTION, str),
            build_request=lambda ids, timeout_ms: EndTxnRequest(
                ids[0], producer_id, producer_epoch, committed
            ),
            read_response=read,
            retry_codes=COORDINATOR_MOVED | {ErrorCode.CONCURRENT_TRANSACTIONS},
        )
        await self._driver.run(handler, [transactional_id], timeout_s)

    async def fence_producers(
        self, transactional_ids: Names, *, timeout_s: float | None = None
    ) -> dict[str, ProducerIdAndEpoch]:
        """Fence the current producers of transactional ids, and abort their open transactions.

        >>> from odradek import Admin
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> admin.fence_producers(["clerk"])["clerk"].producer_epoch >= 0
        True
        >>> admin.close()
        """

        def read(
            ids: Sequence[str], response: InitProducerIdResponse
        ) -> Iterable[tuple[str, ProducerIdAndEpoch | ApiError]]:
            code = ErrorCode(response.error_code)
            yield (
                ids[0],
                ApiError(code) if code else ProducerIdAndEpoch(response.producer_id, response.producer_epoch),
            )

        handler: AdminApiHandler[str, ProducerIdAndEpoch] = AdminApiHandler(
            call="fence producers",
            key_name=transactional_name,
            lookup=at_coordinator(CoordinatorType.TRANSACTION, str),
            build_request=_fence_request,
            read_response=read,
            retry_codes=COORDINATOR_MOVED | {ErrorCode.CONCURRENT_TRANSACTIONS},
        )
        ids = read_names(transactional_ids, "transactional_ids")
        return await self._driver.run(handler, ids, timeout_s)


def transactional_name(transactional_id: str) -> str:
    """Return the name of a transactional id for error messages."""
    return f"transactional id {transactional_id}"


def _fence_request(ids: Sequence[str], timeout_ms: int) -> InitProducerIdRequest:
    if len(ids) > 1:
        raise UnsupportedVersion(f"InitProducerId takes one transactional id, got {len(ids)}")
    return InitProducerIdRequest(ids[0], timeout_ms)


def _read_producers(
    partitions: Sequence[TopicPartition], response: DescribeProducersResponse
) -> Iterable[tuple[TopicPartition, list[ProducerState] | ApiError]]:
    for topic in response.topics:
        for entry in topic.partitions:
            partition = TopicPartition(topic.name, entry.partition_index)
            if entry.error_code:
                yield partition, ApiError(ErrorCode(entry.error_code), entry.error_message)
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
                    for state in entry.active_producers
                ],
            )


def _described(state: TransactionState) -> TransactionDescription:
    return TransactionDescription(
        state.transactional_id,
        state.transaction_state,
        state.producer_id,
        state.producer_epoch,
        state.transaction_timeout_ms,
        state.transaction_start_time_ms,
        frozenset(
            TopicPartition(topic.topic, number) for topic in state.topics for number in topic.partitions
        ),
    )


def _read_markers(
    partitions: Sequence[TopicPartition], response: WriteTxnMarkersResponse
) -> Iterable[tuple[TopicPartition, ApiError | None]]:
    for marker in response.markers:
        for topic in marker.topics:
            for entry in topic.partitions:
                code = ErrorCode(entry.error_code)
                yield TopicPartition(topic.name, entry.partition_index), ApiError(code) if code else None
