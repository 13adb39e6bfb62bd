"""Groups of several members against a broker on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.simulation.client_fixture import ClientFixture
from tests.support.simulation.group_members import GroupMembers

from odradek.client.consumer.assignors import Assignment, RebalanceProtocol
from odradek.client.network.network_client import CoordinatorType
from odradek.client.values import OffsetAndMetadata
from odradek.model.client_errors import ClientError, CommitFailed, InvalidState, RequestRefused
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.testing.broker import MemoryCluster
from odradek.testing.clock import run_virtually
from odradek.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol

Play = Callable[..., None]
BROKER = {
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "3",
}


@pytest.fixture
def play() -> Play:
    """Run a scenario with group members, which are closed at its end. It may start another broker."""

    def run(scenario: Callable[[GroupMembers], Any], **settings: str) -> None:
        async def main() -> None:
            memory = MemoryCluster()
            overrides = {name.replace("_", "."): value for name, value in settings.items()}
            fixture = ClientFixture(memory, await memory.start({**BROKER, **overrides}))
            readers = GroupMembers(fixture)
            try:
                await scenario(readers)
                await readers.close()
                await fixture.close()
            finally:
                await fixture.broker.stop()
                await memory.close()

        run_virtually(main)

    return run


STRATEGIES = ["range", "roundrobin", "sticky", "cooperative-sticky"]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_members_share_all_partitions(play: Play, strategy: str) -> None:
    async def scenario(group: GroupMembers) -> None:
        partitions = await group.create("t", 6)
        options = {"partition_assignment_strategy": strategy}
        first = await group.polling("a", "t", **options)
        await group.until_shared([first], partitions)
        second = await group.polling("b", "t", **options)
        third = await group.polling("c", "t", **options)
        await group.until_shared([first, second, third], partitions)
        await asyncio.sleep(5)
        assert sorted(len(member.assigned) for member in group.all) == [2, 2, 2]
        await first.close()
        await group.until_shared([second, third], partitions)
        assert [member.failures for member in group.all] == [[], [], []]

    play(scenario)


COOPERATIVE = {"partition_assignment_strategy": "cooperative-sticky"}
EAGER = {"partition_assignment_strategy": "sticky"}


def test_revoked_partitions_by_protocol(play: Play) -> None:
    async def scenario(group: GroupMembers) -> None:
        partitions = await group.create("t", 4)
        for options, revoked_count in ((EAGER, 4), (COOPERATIVE, 2)):
            name = options["partition_assignment_strategy"]
            first = await group.polling(f"{name}-1", "t", group_id=name, **options)
            await group.until_shared([first], partitions)
            second = await group.polling(f"{name}-2", "t", group_id=name, **options)
            await group.until_shared([first, second], partitions)
            revoked = [tp for event, partitions in first.heard if event == "revoked" for tp in partitions]
            assert len(revoked) == revoked_count
            assert first.words[0] == "assigned"
            assert "lost" not in first.words

    play(scenario)


def test_cooperative_member_keeps_reading_during_rebalance(play: Play) -> None:
    async def scenario(group: GroupMembers) -> None:
        partitions = await group.create("t", 4)
        first = await group.polling("a", "t", **COOPERATIVE)
        await group.until_shared([first], partitions)
        await first.stop_polling()
        second = await group.reader("b", **COOPERATIVE).subscribe("t")
        second.keep_polling()
        least = 4
        for _ in range(100):
            assert await first.poll(0), "the member always has partitions to read"
            least = min(least, len(first.assigned))
            await asyncio.sleep(0.1)
        assert least == 2
        await group.until_shared([first, second], partitions)

    play(scenario)


def test_eager_member_reads_nothing_during_rebalance(play: Play) -> None:
    async def scenario(group: GroupMembers) -> None:
        partitions = await group.create("t", 4)
        first = await group.polling("a", "t", **EAGER)
        await group.until_shared([first], partitions)
        second = await group.polling("b", "t", **EAGER)
        await group.until_shared([first, second], partitions)
        await second.stop_polling()
        first.coordinator.request_rejoin("test")
        await first.stop_polling()
        assert not await first.poll(5000)
        assert first.assigned == set()
        second.keep_polling()
        first.keep_polling()
        await group.until_shared([first, second], partitions)

    play(scenario)


def test_heartbeats_continue_between_polls(play: Play) -> None:
    async def scenario(group: GroupMembers) -> None:
        partitions = await group.create("t", 2)
        first = await group.polling("a", "t")
        second = await group.polling("b", "t")
        await group.until_shared([first, second], partitions)
        await first.stop_polling()
        call_count = len(second.heard)
        await asyncio.sleep(50)
        assert len(second.heard) == call_count
        assert await first.poll()
        assert first.words[-1] == "assigned"

    play(scenario)


def test_poll_timeout_loses_partitions_until_next_poll(play: Play, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(group: GroupMembers) -> None:
        partitions = await group.create("t", 2)
        first = await group.polling("a", "t")
        second = await group.polling("b", "t")
        await group.until_shared([first, second], partitions)
        await first.stop_polling()
        await asyncio.sleep(70)
        assert second.assigned == set(partitions)
        assert "max.poll.interval.ms" in caplog.text
        with pytest.raises(CommitFailed):
            await first.coordinator.commit({partitions[0]: OffsetAndMetadata(1)}, 1000)
        first.keep_polling()
        await group.until_shared([first, second], partitions)
        assert "lost" in first.words
        assert first.failures == []

    play(scenario)


def test_partitioned_member_loses_assignment_and_rejoins(play: Play) -> None:
    async def scenario(group: GroupMembers) -> None:
        partitions = await group.create("t", 2)
        first = await group.polling("a", "t")
        second = await group.polling("b", "t")
        await group.until_shared([first, second], partitions)
        group.fixture.network.partition("a", "broker")
        await asyncio.sleep(40)
        assert second.assigned == set(partitions)
        group.fixture.network.heal()
        await group.until_shared([first, second], partitions)
        assert "lost" in first.words

    play(scenario)


def test_coordinator_is_rediscovered_after_heartbeat_timeout(play: Play) -> None:
    async def scenario(group: GroupMembers) -> None:
        partitions = await group.create("t", 2)
        first = await group.polling("a", "t")
        await group.until_shared([first], partitions)
        for connection in group.fixture.network.connections:
            if connection.host == "a":
                connection.mute()
        await asyncio.sleep(60)
        await group.until_shared([first], partitions)
        assert first.failures == []

    play(scenario)


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
@pytest.mark.parametrize("kill", [False, True])
def test_group_survives_coordinator_restart(play: Play, strategy: str, kill: bool) -> None:
    async def scenario(group: GroupMembers) -> None:
        partitions = await group.create("t", 4)
        options = {"partition_assignment_strategy": strategy}
        both = [await group.polling("a", "t", **options), await group.polling("b", "t", **options)]
        await group.until_shared(both, partitions)
        fixture = group.fixture
        await (fixture.broker.kill() if kill else fixture.broker.stop())
        await asyncio.sleep(3)
        fixture.broker = await fixture.memory.start(BROKER)
        await asyncio.sleep(20)
        await group.until_shared(both, partitions)
        await both[0].coordinator.commit({partitions[0]: OffsetAndMetadata(7)}, 20_000)
        third = await group.polling("c", "t", **options)
        await group.until_shared([*both, third], partitions)
        assert [member.failures for member in group.all] == [[], [], []]

    play(scenario)


def test_new_partitions_and_topics_are_assigned(play: Play) -> None:
    async def scenario(group: GroupMembers) -> None:
        partitions = await group.create("orders-1", 2)
        first = (await group.reader("a").subscribe_pattern("orders-.*")).keep_polling()
        second = (await group.reader("b").subscribe_pattern("orders-.*")).keep_polling()
        await group.until_shared([first, second], partitions)
        await group.grow("orders-1", 4)
        partitions += [TopicPartition("orders-1", 2), TopicPartition("orders-1", 3)]
        await group.until_shared([first, second], partitions)
        partitions += await group.create("orders-2", 2)
        await group.create("letters", 2)
        await group.until_shared([first, second], partitions)
        assert [member.failures for member in group.all] == [[], []]

    play(scenario)


def test_topic_created_later_is_assigned(play: Play) -> None:
    async def scenario(group: GroupMembers) -> None:
        first = await group.polling("a", "t", "late")
        partitions = await group.create("t", 1)
        await group.until_shared([first], partitions)
        partitions += await group.create("late", 2)
        await group.until_shared([first], partitions)

    play(scenario)


def test_members_with_different_subscriptions(play: Play) -> None:
    async def scenario(group: GroupMembers) -> None:
        partitions = [*await group.create("t", 2), *await group.create("u", 2)]
        first = await group.polling("a", "t")
        second = await group.polling("b", "u")
        await group.until_shared([first, second], partitions)
        assert {tp.topic for tp in first.assigned} == {"t"}
        await first.subscribe("t", "u")
        await second.subscribe("t")
        await group.until(lambda: {tp.topic for tp in second.assigned} == {"t"})
        await group.until_shared([first, second], partitions)

    play(scenario)


def test_pattern_excludes_internal_topics_by_default(play: Play) -> None:
    async def scenario(group: GroupMembers) -> None:
        partitions = await group.create("t", 1)
        first = (await group.reader("a").subscribe_pattern(".*")).keep_polling()
        await group.until_shared([first], partitions)
        other = await group.reader("b", group_id="h", exclude_internal_topics=False).subscribe_pattern(".*")
        other.keep_polling()
        await group.until_shared(
            [other], [*partitions, *(TopicPartition("__consumer_offsets", i) for i in range(3))]
        )

    play(scenario)


def test_static_member_regains_partitions_after_restart(play: Play) -> None:
    async def scenario(group: GroupMembers) -> None:
        partitions = await group.create("t", 4)
        first = await group.polling("a", "t", group_instance_id="one")
        second = await group.polling("b", "t", group_instance_id="two")
        await group.until_shared([first, second], partitions)
        assigned, calls = first.assigned, list(second.heard)
        await first.close()
        await asyncio.sleep(5)
        restarted = await group.polling("c", "t", group_instance_id="one")
        await group.until_shared([restarted, second], partitions)
        assert restarted.assigned == assigned
        assert second.heard == calls, "no rebalance"

    play(scenario)


def test_duplicate_static_member_fences_the_first(play: Play) -> None:
    async def scenario(group: GroupMembers) -> None:
        partitions = await group.create("t", 2)
        first = await group.polling("a", "t", group_instance_id="one")
        await group.until_shared([first], partitions)
        await first.stop_polling()
        second = await group.polling("b", "t", group_instance_id="one")
        await group.until_shared([second], partitions)
        await asyncio.sleep(10)
        with pytest.raises(RequestRefused) as raised:
            await first.poll()
        assert raised.value.code is ErrorCode.FENCED_INSTANCE_ID

    play(scenario)


def test_listener_exception_is_raised_after_rebalance(play: Play) -> None:
    async def scenario(group: GroupMembers) -> None:
        partitions = await group.create("t", 2)
        first = await group.reader("a").subscribe("t")
        first.raises["assigned"] = ValueError("assigned callback failed")
        with pytest.raises(ValueError, match="assigned callback failed"):
            await first.poll(10_000)
        assert first.assigned == set(partitions)
        first.raises["revoked"] = ValueError("revoked callback failed")
        first.coordinator.request_rejoin("test")
        with pytest.raises(ValueError, match="revoked callback failed"):
            await first.poll(10_000)
        first.keep_polling()
        await group.until_shared([first], partitions)

    play(scenario)


def test_unsubscribe_leaves_group(play: Play) -> None:
    async def scenario(group: GroupMembers) -> None:
        partitions = await group.create("t", 2)
        first = await group.polling("a", "t")
        second = await group.polling("b", "t")
        await group.until_shared([first, second], partitions)
        await first.stop_polling()
        await first.coordinator.leave(10_000, "the consumer unsubscribed")
        first.subscription.unsubscribe()
        assert first.words[-1] == "revoked"
        await asyncio.sleep(4)
        assert second.assigned == set(partitions)
        assert first.coordinator.group_metadata().generation_id == -1
        await first.subscribe("t")
        first.keep_polling()
        await group.until_shared([first, second], partitions)

    play(scenario)


def test_join_fails_when_group_is_full(play: Play) -> None:
    async def scenario(group: GroupMembers) -> None:
        partitions = await group.create("t", 2)
        first = await group.polling("a", "t")
        await group.until_shared([first], partitions)
        second = await group.reader("b").subscribe("t")
        with pytest.raises(RequestRefused) as raised:
            await second.poll(10_000)
        assert raised.value.code is ErrorCode.GROUP_MAX_SIZE_REACHED

    play(scenario, group_max_size="1")


def test_join_fails_without_common_assignor(play: Play) -> None:
    async def scenario(group: GroupMembers) -> None:
        partitions = await group.create("t", 2)
        first = await group.polling("a", "t", **EAGER)
        await group.until_shared([first], partitions)
        second = await group.reader("b", partition_assignment_strategy="range").subscribe("t")
        with pytest.raises(RequestRefused) as raised:
            await second.poll(10_000)
        assert raised.value.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    play(scenario)


def test_rolling_upgrade_from_eager_to_cooperative(play: Play) -> None:
    async def scenario(group: GroupMembers) -> None:
        partitions = await group.create("t", 4)
        both = {"partition_assignment_strategy": "cooperative-sticky,range"}
        members = [await group.polling(f"old{index}", "t") for index in range(2)]
        await group.until_shared(members, partitions)
        for round_, options in enumerate((both, COOPERATIVE)):
            for index in range(2):
                await members[index].close()
                members[index] = await group.polling(f"new{round_}{index}", "t", **options)
                await group.until_shared(members, partitions)
        assert [member.failures for member in group.all] == [[]] * 6

    play(scenario)


class HighestPriorityAssignor:
    """A custom assignor with user data in both directions: the highest priority gets everything."""

    name = "priority"
    protocols = frozenset({RebalanceProtocol.EAGER})

    def __init__(self, priority: int) -> None:
        self.priority = priority
        self.received: list[tuple[bytes | None, int]] = []

    def user_data(self, topics: frozenset[str]) -> bytes | None:
        assert topics == {"t"}
        return bytes([self.priority])

    def assign(self, topics: Any, members: Any) -> dict[str, Assignment]:
        highest = max(members, key=lambda member: member.user_data)
        partitions = [TopicPartition("t", index) for index in range(len(topics["t"]))]
        return {highest.member_id: Assignment(partitions, b"you")}

    def on_assignment(self, assignment: Assignment, generation: int) -> None:
        self.received.append((assignment.user_data, generation))


def test_custom_assignor(play: Play) -> None:
    async def scenario(group: GroupMembers) -> None:
        partitions = await group.create("t", 3)
        assignors = [HighestPriorityAssignor(2), HighestPriorityAssignor(9)]
        members = [
            await group.reader(f"m{i}", [assignor]).subscribe("t") for i, assignor in enumerate(assignors)
        ]
        for member in members:
            member.keep_polling()
        await group.until_shared(members, partitions)
        await asyncio.sleep(5)
        assert [len(member.assigned) for member in members] == [0, 3]
        assert assignors[1].received[-1][0] == b"you"
        assert assignors[0].received[-1][0] is None
        assert assignors[0].received[-1][1] == assignors[1].received[-1][1] >= 1

    play(scenario)


class InvalidCooperativeAssignor(HighestPriorityAssignor):
    """Claims to be cooperative, and assigns partitions that other members own."""

    name = "invalid-cooperative"
    protocols = frozenset({RebalanceProtocol.COOPERATIVE})


def test_cooperative_assignor_must_not_assign_owned_partitions(play: Play) -> None:
    async def scenario(group: GroupMembers) -> None:
        partitions = await group.create("t", 3)
        first = await group.reader("a", [InvalidCooperativeAssignor(1)]).subscribe("t")
        first.keep_polling()
        await group.until_shared([first], partitions)
        second = await group.reader("b", [InvalidCooperativeAssignor(2)]).subscribe("t")
        second.keep_polling()
        await group.until(lambda: bool(first.failures or second.failures))
        failure = (first.failures + second.failures)[0]
        assert isinstance(failure, InvalidState)
        assert "must withhold" in str(failure)

    play(scenario)


def test_invalid_subscription_of_member_is_reported(play: Play) -> None:
    async def scenario(group: GroupMembers) -> None:
        partitions = await group.create("t", 3)
        first = await group.polling("a", "t")
        await group.until_shared([first], partitions)
        other = await group.fixture.network_client()
        node = await other.coordinator(CoordinatorType.GROUP, "g", 5000)
        protocol = JoinGroupRequestProtocol(name="range", metadata=b"?")
        invalid_join = JoinGroupRequest(
            group_id="g", session_timeout_ms=6000, protocol_type="consumer", protocols=[protocol]
        )
        await other.send(node, invalid_join, version_max=3)
        await group.until(lambda: bool(first.failures))
        assert isinstance(first.failures[0], ClientError)
        assert "sent an invalid subscription" in str(first.failures[0])
        await group.until_shared([first], partitions)

    play(scenario)
