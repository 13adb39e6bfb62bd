"""A transactional producer over the wire, one request at a time, in versions of its choice."""

from __future__ import annotations

from typing import Any, Final

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


async def settle(town: Any) -> None:
    """Have both kinds of coordinators, and all of them loaded."""
    for kind in (GROUP_KEY, TRANSACTION_KEY):
        while True:
            answer = await town.ask(FIND_COORDINATOR, 3, FindCoordinatorRequest("any", kind))
            if answer.error_code == 0:
                break
            await town.cluster.clock.sleep_ms(5)
    while town.broker._groups.is_loading or town.broker._transactions.is_loading:
        await town.cluster.clock.sleep_ms(5)


class Transactor:
    """One instance of a program. ``last`` is what it was told last."""

    def __init__(self, town: Any, name: str = "ledger", timeout_ms: int = 60_000) -> None:
        self.town, self.name, self.timeout_ms = town, name, timeout_ms
        self.producer_id = self.epoch = -1
        self._sequences: dict[tuple[str, int], int] = {}

    async def init(self, version: int = 5, *, goes_on: bool = False) -> int:
        """Become the producer of the transactional id, as often as it takes; give the code."""
        who = (self.producer_id, self.epoch) if goes_on else (-1, -1)
        request = InitProducerIdRequest(self.name, self.timeout_ms, *who)
        while True:
            answer = await self.town.ask(INIT_PRODUCER_ID, version, request)
            if answer.error_code != 51:  # CONCURRENT_TRANSACTIONS: what came before is being ended
                break
            await self.town.cluster.clock.sleep_ms(20)
        if not answer.error_code:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            self._sequences.clear()
        return answer.error_code

    async def add(self, topic: str = "orders", *partitions: int, version: int = 3) -> dict[int, int]:
        """Have partitions of a topic join; give their codes."""
        numbers = list(partitions or (0,))
        named = [AddPartitionsToTxnTopic(topic, numbers)]
        who = (self.name, self.producer_id, self.epoch)
        if version >= 4:
            one = AddPartitionsToTxnTransaction(*who, False, named)
            request = AddPartitionsToTxnRequest([one])
        else:
            request = AddPartitionsToTxnRequest([], *who, named)
        answer = await self.town.ask(ADD_PARTITIONS, version, request)
        results = (
            answer.results_by_transaction[0].topic_results
            if version >= 4
            else answer.results_by_topic_v3_and_below
        )
        return {one.partition_index: one.partition_error_code for one in results[0].results_by_partition}

    async def write(
        self, *values: bytes, topic: str = "orders", partition: int = 0, version: int = 11, acks: int = -1
    ) -> int:
        """Append one batch; give the code."""
        sequence = self._sequences.get((topic, partition), 0)
        batch = self.batch(*values, sequence=sequence)
        data = [TopicProduceData(topic, [PartitionProduceData(partition, batch)])]
        answer = await self.town.ask(PRODUCE, version, ProduceRequest(self.name, acks, 30_000, data))
        code = answer.responses[0].partition_responses[0].error_code
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
            builder.append(self.town.cluster.clock.wall_ms(), None, value)
        return bytearray(builder.build())

    async def end(self, *, commits: bool = True, version: int = 4) -> int:
        request = EndTxnRequest(self.name, self.producer_id, self.epoch, commits)
        answer = await self.town.ask(END_TXN, version, request)
        return answer.error_code

    async def add_offsets(self, group: str = "g", version: int = 4) -> int:
        request = AddOffsetsToTxnRequest(self.name, self.producer_id, self.epoch, group)
        answer = await self.town.ask(ADD_OFFSETS, version, request)
        return answer.error_code

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
        answer = await self.town.ask(TXN_OFFSET_COMMIT, version, request)
        return answer.topics[0].partitions[0].error_code

    async def transact(self, *values: bytes, commits: bool = True) -> None:
        """One whole transaction in one partition."""
        assert await self.add() == {0: 0}
        assert await self.write(*values) == 0
        assert await self.end(commits=commits) == 0
        await self.rest()

    async def rest(self) -> str:
        """Wait until no transaction of the id is open or ending; give its state."""
        while (state := await self.state()) not in ("Empty", "CompleteCommit", "CompleteAbort"):
            await self.town.cluster.clock.sleep_ms(5)
        return state

    async def state(self) -> str:
        asked = DescribeTransactionsRequest([self.name])
        answer = await self.town.ask(DESCRIBE_TRANSACTIONS, 0, asked)
        return answer.transaction_states[0].transaction_state


async def fetch_offset(town: Any, group: str = "g", *, stable: bool = False) -> tuple[int, int]:
    """The code and the offset that a group has in the first partition."""
    asked = OffsetFetchRequestGroup(group, topics=[OffsetFetchRequestTopics("orders", [0])])
    answer = await town.ask(OFFSET_FETCH, 8, OffsetFetchRequest(groups=[asked], require_stable=stable))
    found = answer.groups[0].topics[0].partitions[0]
    return found.error_code, found.committed_offset


async def write_marker(
    town: Any,
    producer_id: int,
    epoch: int,
    *,
    commits: bool = False,
    coordinator_epoch: int = 0,
    topic: str = "orders",
    partition: int = 0,
    version: int = 1,
) -> int:
    """End a transaction by hand; give the code."""
    topics = [WritableTxnMarkerTopic(topic, [partition])]
    marker = WritableTxnMarker(producer_id, epoch, commits, topics, coordinator_epoch)
    answer = await town.ask(WRITE_TXN_MARKERS, version, WriteTxnMarkersRequest([marker]))
    return answer.markers[0].topics[0].partitions[0].error_code


async def committed(town: Any, topic: str = "orders", partition: int = 0) -> list[bytes | None]:
    """What a reader of committed records is left with: it passes over what it is told was aborted."""
    entry = await town.fetch(topic, partition=partition, isolation_level=COMMITTED)
    data = entry.records.read() if hasattr(entry.records, "read") else bytes(entry.records or b"")
    aborted = [(one.first_offset, one.producer_id) for one in entry.aborted_transactions or ()]
    kept: list[bytes | None] = []
    for header in read_headers(data):
        records = decode_batch(data, header)
        if header.is_control:
            if read_control_type(records[0].key) is ControlRecordType.ABORT:
                ended = header.producer_id, header.base_offset
                aborted = [one for one in aborted if one[1] != ended[0] or one[0] > ended[1]]
        elif not any(first <= header.base_offset and who == header.producer_id for first, who in aborted):
            kept += [record.value for record in records]
    return kept
