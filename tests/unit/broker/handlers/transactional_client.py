"""Transactional producer that sends single requests in chosen versions."""

from __future__ import annotations

from typing import Any, Final

from odradek.model.errors import ErrorCode
from odradek.records.batch import BatchBuilder
from odradek.records.codec import decode_batch, read_headers
from odradek.records.control_records import ControlRecordType, read_control_type
from odradek.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from odradek.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from odradek.wire.messages.describe_transactions import DescribeTransactionsRequest
from odradek.wire.messages.end_txn import EndTxnRequest
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest
from odradek.wire.messages.init_producer_id import InitProducerIdRequest
from odradek.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from odradek.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

PRODUCE, OFFSET_FETCH, FIND_COORDINATOR, INIT_PRODUCER_ID = 0, 9, 10, 22
ADD_PARTITIONS, ADD_OFFSETS, END_TXN, WRITE_TXN_MARKERS, TXN_OFFSET_COMMIT = range(24, 29)
DESCRIBE_PRODUCERS, DESCRIBE_TRANSACTIONS, LIST_TRANSACTIONS = 61, 65, 66
GROUP_KEY, TRANSACTION_KEY = 0, 1
COMMITTED = 1

SETTINGS: Final = {
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}


async def create_coordinators(harness: Any) -> None:
    """Create the internal topics and wait until both coordinators are loaded."""
    for kind in (GROUP_KEY, TRANSACTION_KEY):
        while True:
            response = await harness.request(FIND_COORDINATOR, 3, FindCoordinatorRequest("any", kind))
            if response.error_code == 0:
                break
            await harness.cluster.clock.sleep_ms(5)
    while harness.broker._group_coordinator.is_loading or harness.broker._transaction_coordinator.is_loading:
        await harness.cluster.clock.sleep_ms(5)


class TransactionalProducer:
    """One producer instance."""

    def __init__(self, harness: Any, name: str = "ledger", timeout_ms: int = 60_000) -> None:
        self.harness, self.name, self.timeout_ms = harness, name, timeout_ms
        self.producer_id = self.epoch = -1
        self._sequences: dict[tuple[str, int], int] = {}

    async def init(self, version: int = 5, *, bump_epoch: bool = False) -> int:
        """Send InitProducerId, with retries; return the error code."""
        identity = (self.producer_id, self.epoch) if bump_epoch else (-1, -1)
        request = InitProducerIdRequest(self.name, self.timeout_ms, *identity)
        while True:
            response = await self.harness.request(INIT_PRODUCER_ID, version, request)
            if response.error_code != ErrorCode.CONCURRENT_TRANSACTIONS:
                break
            await self.harness.cluster.clock.sleep_ms(20)
        if not response.error_code:
            self.producer_id, self.epoch = response.producer_id, response.producer_epoch
            self._sequences.clear()
        return response.error_code

    async def add(self, topic: str = "orders", *partitions: int, version: int = 3) -> dict[int, int]:
        """Add partitions of a topic to the transaction; return their error codes."""
        numbers = list(partitions or (0,))
        named = [AddPartitionsToTxnTopic(topic, numbers)]
        identity = (self.name, self.producer_id, self.epoch)
        if version >= 4:
            transaction = AddPartitionsToTxnTransaction(*identity, False, named)
            request = AddPartitionsToTxnRequest([transaction])
        else:
            request = AddPartitionsToTxnRequest([], *identity, named)
        response = await self.harness.request(ADD_PARTITIONS, version, request)
        results = (
            response.results_by_transaction[0].topic_results
            if version >= 4
            else response.results_by_topic_v3_and_below
        )
        return {
            result.partition_index: result.partition_error_code for result in results[0].results_by_partition
        }

    async def write(
        self, *values: bytes, topic: str = "orders", partition: int = 0, version: int = 11, acks: int = -1
    ) -> int:
        """Append one batch; return the error code."""
        sequence = self._sequences.get((topic, partition), 0)
        batch = self.batch(*values, sequence=sequence)
        data = [TopicProduceData(topic, [PartitionProduceData(partition, batch)])]
        response = await self.harness.request(PRODUCE, version, ProduceRequest(self.name, acks, 30_000, data))
        code = response.responses[0].partition_responses[0].error_code
        if not code:
            self._sequences[topic, partition] = sequence + len(values)
        return code

    def batch(self, *values: bytes, sequence: int = 0) -> bytearray:
        builder = BatchBuilder(
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        for value in values:
            builder.append(self.harness.cluster.clock.wall_ms(), None, value)
        return bytearray(builder.build())

    async def end(self, *, commits: bool = True, version: int = 4) -> int:
        request = EndTxnRequest(self.name, self.producer_id, self.epoch, commits)
        response = await self.harness.request(END_TXN, version, request)
        return response.error_code

    async def add_offsets(self, group: str = "g", version: int = 4) -> int:
        request = AddOffsetsToTxnRequest(self.name, self.producer_id, self.epoch, group)
        response = await self.harness.request(ADD_OFFSETS, version, request)
        return response.error_code

    async def commit_offset(
        self, offset: int, group: str = "g", version: int = 4, partition: int = 0, **member: Any
    ) -> int:
        part = TxnOffsetCommitRequestPartition(partition, offset)
        request = TxnOffsetCommitRequest(
            self.name,
            group,
            self.producer_id,
            self.epoch,
            topics=[TxnOffsetCommitRequestTopic("orders", [part])],
            **member,
        )
        response = await self.harness.request(TXN_OFFSET_COMMIT, version, request)
        return response.topics[0].partitions[0].error_code

    async def transact(self, *values: bytes, commits: bool = True) -> None:
        """Run one transaction in one partition."""
        assert await self.add() == {0: 0}
        assert await self.write(*values) == 0
        assert await self.end(commits=commits) == 0
        await self.wait_until_complete()

    async def wait_until_complete(self) -> str:
        """Wait until the transaction is complete; return its state."""
        while (state := await self.state()) not in ("Empty", "CompleteCommit", "CompleteAbort"):
            await self.harness.cluster.clock.sleep_ms(5)
        return state

    async def state(self) -> str:
        requested = DescribeTransactionsRequest([self.name])
        response = await self.harness.request(DESCRIBE_TRANSACTIONS, 0, requested)
        return response.transaction_states[0].transaction_state


async def fetch_offset(harness: Any, group: str = "g", *, stable: bool = False) -> tuple[int, int]:
    """Return the error code and the committed offset of a group in the first partition."""
    requested = OffsetFetchRequestGroup(group, topics=[OffsetFetchRequestTopics("orders", [0])])
    response = await harness.request(
        OFFSET_FETCH, 8, OffsetFetchRequest(groups=[requested], require_stable=stable)
    )
    result = response.groups[0].topics[0].partitions[0]
    return result.error_code, result.committed_offset


async def write_marker(
    harness: Any,
    producer_id: int,
    epoch: int,
    *,
    commits: bool = False,
    coordinator_epoch: int = 0,
    topic: str = "orders",
    partition: int = 0,
    version: int = 1,
) -> int:
    """Send WriteTxnMarkers; return the error code."""
    topics = [WritableTxnMarkerTopic(topic, [partition])]
    marker = WritableTxnMarker(producer_id, epoch, commits, topics, coordinator_epoch)
    response = await harness.request(WRITE_TXN_MARKERS, version, WriteTxnMarkersRequest([marker]))
    return response.markers[0].topics[0].partitions[0].error_code


async def committed(harness: Any, topic: str = "orders", partition: int = 0) -> list[bytes | None]:
    """Return the values that a read_committed consumer delivers, without aborted ones."""
    entry = await harness.fetch(topic, partition=partition, isolation_level=COMMITTED)
    data = entry.records.read() if hasattr(entry.records, "read") else bytes(entry.records or b"")
    aborted = [
        (transaction.first_offset, transaction.producer_id)
        for transaction in entry.aborted_transactions or ()
    ]
    kept: list[bytes | None] = []
    for header in read_headers(data):
        records = decode_batch(data, header)
        if header.is_control:
            if read_control_type(records[0].key) is ControlRecordType.ABORT:
                ended = header.producer_id, header.base_offset
                aborted = [entry for entry in aborted if entry[1] != ended[0] or entry[0] > ended[1]]
        elif not any(
            first <= header.base_offset and identity == header.producer_id for first, identity in aborted
        ):
            kept += [record.value for record in records]
    return kept
