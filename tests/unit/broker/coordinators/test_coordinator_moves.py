"""Coordinators that move between brokers: requests in progress, state, loads overtaken, partition counts."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from odradek.coordinators.groups.commands import CommitOffsets, JoinGroup, OffsetAndMetadata
from odradek.coordinators.partitioning import partition_of
from odradek.coordinators.transactions.commands import AddPartitions, EndTransaction, InitProducerId
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.ids import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, TopicPartition
from odradek.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)

from .coordinator_cluster import (
    CoordinatorCluster,
    Node,
    create_internal_topics,
    run_scenario,
)

ORDERS = TopicPartition("orders", 0)
ALTER_PARTITION = 56
GROUP, TRANSACTIONAL_ID = "g", "ledger"
BOTH = (1, 2)


def commit(node: Node, offset: int, group: str = GROUP) -> list[Any]:
    committed = OffsetAndMetadata(offset, -1, "", node.cluster.clock.wall_ms())
    responses: list[Any] = []
    node.groups.submit(group, CommitOffsets(group, -1, "", None, {ORDERS: committed}), responses.append)
    return responses


async def commit_replicated(fixture: CoordinatorCluster, offset: int) -> None:
    """Commit on broker 1, and wait until the offset is committed."""
    responses = commit(fixture[1], offset)
    await fixture.until(lambda: bool(responses))


def join(node: Node) -> list[Any]:
    protocols = (("range", b"metadata"),)
    responses: list[Any] = []
    node.groups.submit(
        GROUP,
        JoinGroup(GROUP, "", None, "app", "/10.0.0.1", 10_000, 60_000, "consumer", protocols, False, False),
        responses.append,
    )
    return responses


def fetch(node: Node) -> int:
    code, offsets = node.groups.shard_of(GROUP).fetch_offsets(GROUP, None, False)
    assert code is ErrorCode.NONE
    return offsets[ORDERS].offset if ORDERS in offsets else -1


def submit(node: Node, command: Any) -> list[Any]:
    responses: list[Any] = []
    node.transactions.submit(TRANSACTIONAL_ID, command, responses.append)
    return responses


def error_of(call: Any) -> ErrorCode:
    with pytest.raises(BrokerError) as error:
        call()
    return error.value.code


# Moves.


def test_commits_wait_for_replicas_and_move_with_the_leadership() -> None:
    async def scenario(fixture: CoordinatorCluster) -> None:
        await create_internal_topics(fixture, replicas=BOTH)
        committed = commit(fixture[1], 7)
        assert committed == [], "not committed before the follower has it"
        await fixture.until(lambda: bool(committed))
        assert committed[0].errors == {ORDERS: ErrorCode.NONE}
        await fixture.place(2, OFFSETS_TOPIC)
        assert error_of(lambda: commit(fixture[1], 8)) is ErrorCode.NOT_COORDINATOR
        await fixture.until_loaded()
        assert fetch(fixture[2]) == 7
        second = commit(fixture[2], 8)
        await fixture.until(lambda: bool(second))
        await fixture.place(1, OFFSETS_TOPIC)
        await fixture.until_loaded()
        assert fetch(fixture[1]) == 8, "the reload includes the last batch"

    run_scenario(scenario)


def test_requests_are_rejected_while_the_new_coordinator_loads() -> None:
    async def scenario(fixture: CoordinatorCluster) -> None:
        await create_internal_topics(fixture, replicas=BOTH)
        await commit_replicated(fixture, 7)
        # The former leader does not fetch yet, and only it knows that the offset is committed.
        await fixture.place(2, OFFSETS_TOPIC, to=[2])
        await fixture.clock.sleep_ms(1_000)
        assert error_of(lambda: commit(fixture[2], 8)) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await fixture.tell(1, OFFSETS_TOPIC)
        await fixture.until_loaded()
        assert fetch(fixture[2]) == 7

    run_scenario(scenario)


@pytest.mark.parametrize("topic", [OFFSETS_TOPIC, TRANSACTIONS_TOPIC])
def test_coordinator_loads_while_the_isr_is_below_min_isr(topic: str) -> None:
    """The high watermark stands still then, but what the only in-sync replica has cannot be lost."""

    async def scenario(fixture: CoordinatorCluster) -> None:
        await create_internal_topics(fixture, replicas=BOTH)
        if topic == OFFSETS_TOPIC:
            await commit_replicated(fixture, 7)
        else:
            initialized = submit(fixture[1], InitProducerId(TRANSACTIONAL_ID, 60_000, new_producer_id=5))
            await fixture.until(lambda: bool(initialized))
        await fixture.place(2, topic, to=[2], isr=(2,))
        await fixture.until_loaded()
        partitions = [fixture[2].partition(topic, number) for number in range(2)]
        assert any(partition.high_watermark < partition.log_end_offset for partition in partitions)
        if topic == OFFSETS_TOPIC:
            assert fetch(fixture[2]) == 7
            assert commit(fixture[2], 8)[0].errors == {ORDERS: ErrorCode.COORDINATOR_NOT_AVAILABLE}
        else:
            assert TRANSACTIONAL_ID in fixture[2].transactions.shard_of(TRANSACTIONAL_ID).ids

    run_scenario(scenario, settings={"min.insync.replicas": "2"})


def test_load_goes_on_when_a_follower_that_lags_leaves_the_isr() -> None:
    async def scenario(fixture: CoordinatorCluster) -> None:
        fixture.controller.responses[ALTER_PARTITION] = accept_isr
        await create_internal_topics(fixture, replicas=BOTH)
        await commit_replicated(fixture, 7)
        # The former leader hangs: it does not fetch.
        await fixture.place(2, OFFSETS_TOPIC, to=[2])
        await fixture.clock.sleep_ms(5_000)
        assert fixture[2].groups.is_loading
        await fixture.until(lambda: not fixture[2].groups.is_loading)
        assert fetch(fixture[2]) == 7

    run_scenario(scenario, settings={"min.insync.replicas": "2", "replica.lag.time.max.ms": "10000"})


def accept_isr(request: AlterPartitionRequest) -> AlterPartitionResponse:
    """Accept every proposed ISR."""
    topics = [
        AlterPartitionResponseTopicData(
            "",
            topic.topic_id,
            [
                AlterPartitionResponsePartitionData(
                    part.partition_index,
                    0,
                    request.broker_id,
                    part.leader_epoch,
                    [member.broker_id for member in part.new_isr_with_epochs] or part.new_isr,
                    0,
                    part.partition_epoch + 1,
                )
                for part in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return AlterPartitionResponse(0, 0, topics)


def test_waiting_requests_end_with_not_coordinator() -> None:
    async def scenario(fixture: CoordinatorCluster) -> None:
        await create_internal_topics(fixture, replicas=BOTH)
        first = join(fixture[1])
        await fixture.until(lambda: bool(first))
        waiting = join(fixture[1])
        committing = commit(fixture[1], 7, "other")
        initializing = submit(fixture[1], InitProducerId(TRANSACTIONAL_ID, 60_000, new_producer_id=5))
        assert (waiting, committing, initializing) == ([], [], [])
        await fixture.place(2, OFFSETS_TOPIC)
        await fixture.place(2, TRANSACTIONS_TOPIC)
        assert [response.error for response in waiting] == [ErrorCode.NOT_COORDINATOR]
        assert committing[0].errors == {ORDERS: ErrorCode.NOT_COORDINATOR}
        assert [response.error for response in initializing] == [ErrorCode.NOT_COORDINATOR]

    run_scenario(scenario)


def test_reassigned_away_coordinator_is_unloaded_by_stop_replica() -> None:
    async def scenario(fixture: CoordinatorCluster) -> None:
        await create_internal_topics(fixture, replicas=BOTH)
        waiting = commit(fixture[1], 7)
        for topic in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC):
            await fixture.place(2, topic, to=[2])
            for number in range(2):
                await fixture.stop_replica(1, topic, number, leader_epoch=1)
        assert waiting[0].errors == {ORDERS: ErrorCode.NOT_COORDINATOR}
        assert error_of(lambda: commit(fixture[1], 8)) is ErrorCode.NOT_COORDINATOR
        assert error_of(lambda: fixture[1].transactions.shard_of("any")) is ErrorCode.NOT_COORDINATOR
        assert fixture[1].groups.shards() == []

    run_scenario(scenario)


def test_commit_without_enough_replicas_is_coordinator_not_available() -> None:
    async def scenario(fixture: CoordinatorCluster) -> None:
        await create_internal_topics(fixture, replicas=BOTH)
        for partition in list(fixture[1].replica_manager):
            assert partition.leader_state is not None
            partition.leader_state.isr = (1,)
            partition.min_isr = 2
        assert commit(fixture[1], 7)[0].errors == {ORDERS: ErrorCode.COORDINATOR_NOT_AVAILABLE}
        initialized = submit(fixture[1], InitProducerId(TRANSACTIONAL_ID, 60_000, new_producer_id=5))
        assert [response.error for response in initialized] == [ErrorCode.COORDINATOR_NOT_AVAILABLE]

    run_scenario(scenario)


# Leader epochs.


def test_load_overtaken_by_a_role_change_is_dropped() -> None:
    async def scenario(fixture: CoordinatorCluster) -> None:
        await create_internal_topics(fixture, replicas=BOTH)
        await commit_replicated(fixture, 7)
        await fixture.place(2, OFFSETS_TOPIC, to=[2])
        await fixture.clock.sleep_ms(1_000)
        assert fixture[2].groups.is_loading
        await fixture.place(1, OFFSETS_TOPIC)
        assert not fixture[2].groups.is_loading
        await fixture.until_loaded()
        assert fixture[2].groups.shards() == []
        assert len(fixture[1].groups.shards()) == 2
        assert fetch(fixture[1]) == 7
        await fixture.place(2, OFFSETS_TOPIC)
        await fixture.place(1, OFFSETS_TOPIC)
        await fixture.place(2, OFFSETS_TOPIC)
        await fixture.until_loaded()
        assert fixture[1].groups.shards() == []
        assert fetch(fixture[2]) == 7

    run_scenario(scenario)


def test_new_epoch_of_the_same_leader_keeps_groups_and_reloads_transactions() -> None:
    async def scenario(fixture: CoordinatorCluster) -> None:
        await create_internal_topics(fixture)
        assert commit(fixture[1], 7)[0].errors == {ORDERS: ErrorCode.NONE}
        groups = fixture[1].groups.shards()
        (initialized,) = submit(fixture[1], InitProducerId(TRANSACTIONAL_ID, 60_000, new_producer_id=5))
        transactions = fixture[1].transactions.shards()
        await fixture.place(1, OFFSETS_TOPIC)
        await fixture.place(1, TRANSACTIONS_TOPIC)
        await fixture.until_loaded()
        assert fixture[1].groups.shards() == groups
        assert not set(fixture[1].transactions.shards()) & set(transactions)
        (again,) = submit(fixture[1], InitProducerId(TRANSACTIONAL_ID, 60_000))
        assert (again.producer_id, again.producer_epoch) == (5, initialized.producer_epoch + 1)

    run_scenario(scenario)


# Transactions between PREPARE and the markers.


async def begin(node: Node, *partitions: TopicPartition) -> None:
    (initialized,) = submit(node, InitProducerId(TRANSACTIONAL_ID, 60_000, new_producer_id=5))
    assert initialized.error is ErrorCode.NONE
    (added,) = submit(node, AddPartitions(TRANSACTIONAL_ID, 5, 0, partitions))
    assert not any(added.errors.values())


def state_of(node: Node) -> str:
    return node.transactions.shard_of(TRANSACTIONAL_ID).describe(TRANSACTIONAL_ID).state


def test_new_coordinator_writes_the_markers_of_a_prepared_transaction() -> None:
    async def scenario(fixture: CoordinatorCluster) -> None:
        await create_internal_topics(fixture, transactions=1)
        await fixture.create("orders", 1, (2,))
        fixture.leaders[ORDERS] = -1, 0
        await fixture.announce([ORDERS])
        await begin(fixture[1], ORDERS)
        assert submit(fixture[1], EndTransaction(TRANSACTIONAL_ID, 5, 0, True)) == [ErrorCode.NONE]
        await fixture.clock.sleep_ms(3_000)
        assert state_of(fixture[1]) == "PrepareCommit"
        await fixture.create(TRANSACTIONS_TOPIC, 2, BOTH)
        await fixture.place(1, TRANSACTIONS_TOPIC)
        for number in range(2):
            await fixture.until_replicated(TRANSACTIONS_TOPIC, number)
        await fixture.place(2, TRANSACTIONS_TOPIC)
        await fixture.until_loaded()
        assert state_of(fixture[2]) == "PrepareCommit"
        await fixture.place(2, "orders")
        await fixture.until(lambda: state_of(fixture[2]) == "CompleteCommit")
        number = fixture[2].transactions._topic.partition_of(TRANSACTIONAL_ID)
        epoch = fixture.leaders[TopicPartition(TRANSACTIONS_TOPIC, number)][1]
        assert fixture[2].coordinator_epochs("orders") == {epoch}
        end_offset = fixture[2].log_end_offset("orders")
        await fixture.clock.sleep_ms(5_000)
        assert fixture[2].log_end_offset("orders") == end_offset == 1, "the former coordinator has given up"

    run_scenario(scenario)


def test_end_of_a_transaction_that_moves_before_it_is_committed_can_be_retried() -> None:
    async def scenario(fixture: CoordinatorCluster) -> None:
        await create_internal_topics(fixture, transactions=1, replicas=BOTH)
        await fixture.create("orders", 1, (1,))
        await fixture.place(1, "orders")

        async def call(node: Node, command: Any) -> Any:
            responses = submit(node, command)
            await fixture.until(lambda: bool(responses))
            return responses[0]

        await call(fixture[1], InitProducerId(TRANSACTIONAL_ID, 60_000, new_producer_id=5))
        await call(fixture[1], AddPartitions(TRANSACTIONAL_ID, 5, 0, (ORDERS,)))
        end = EndTransaction(TRANSACTIONAL_ID, 5, 0, True)
        ending = submit(fixture[1], end)
        assert ending == []
        await fixture.place(2, TRANSACTIONS_TOPIC)
        assert ending == [ErrorCode.NOT_COORDINATOR]
        await fixture.until_loaded()
        while (code := await call(fixture[2], end)) is ErrorCode.CONCURRENT_TRANSACTIONS:
            await fixture.clock.sleep_ms(20)
        assert code is ErrorCode.NONE
        await fixture.until(lambda: state_of(fixture[2]) == "CompleteCommit")
        assert fixture[1].coordinator_epochs("orders") == {1}
        assert fixture[1].log_end_offset("orders") == 1

    run_scenario(scenario)


# The number of partitions.


def test_partition_count_is_that_of_the_assignment_not_of_known_partitions() -> None:
    async def scenario(fixture: CoordinatorCluster) -> None:
        await fixture.create(OFFSETS_TOPIC, 5, (1,))
        for number in range(5):
            fixture.leaders[TopicPartition(OFFSETS_TOPIC, number)] = 1, 0
        known = [TopicPartition(OFFSETS_TOPIC, number) for number in range(3)]
        await fixture.announce(known)
        groups = fixture[2].groups
        assert error_of(lambda: groups.partition_of("a")) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        await fixture.clock.sleep_ms(100)
        for name in map(str, range(50)):
            assert groups.partition_of(name) == partition_of(name, 5)
            if partition_of(name, 5) < 3:
                assert groups.coordinator_of(name, "PLAINTEXT")[0].id == 1
            else:
                code = error_of(partial(groups.coordinator_of, name, "PLAINTEXT"))
                assert code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        await fixture.announce([TopicPartition(OFFSETS_TOPIC, number) for number in (3, 4)])
        assert all(groups.coordinator_of(str(number), "PLAINTEXT")[0].id == 1 for number in range(50))

    run_scenario(scenario)


def test_configured_count_serves_until_the_store_is_read() -> None:
    async def scenario(fixture: CoordinatorCluster) -> None:
        await fixture.create(OFFSETS_TOPIC, 2, (1,))
        await fixture.place(1, OFFSETS_TOPIC)
        assert fixture[2].groups.coordinator_of("g", "PLAINTEXT")[0].id == 1

    run_scenario(scenario)


def test_added_partitions_do_not_change_the_count() -> None:
    async def scenario(fixture: CoordinatorCluster) -> None:
        await create_internal_topics(fixture)
        await fixture.create(OFFSETS_TOPIC, 7, (1,))
        await fixture.place(1, OFFSETS_TOPIC)
        await fixture.clock.sleep_ms(100)
        numbers = {fixture[1].groups.partition_of(str(number)) for number in range(50)}
        assert numbers == {0, 1}

    run_scenario(scenario)
