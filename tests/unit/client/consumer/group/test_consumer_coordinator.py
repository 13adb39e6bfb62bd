"""Groups of several members against a whole broker, on virtual time."""

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
    """Run a scenario with readers, which are closed at its end. It may start another broker."""

    def run(scenario: Callable[[GroupMembers], Any], **settings: str) -> None:
        async def main() -> None:
            memory = MemoryCluster()
            given = {**BROKER, **{name.replace("_", "."): value for name, value in settings.items()}}
            stage = ClientFixture(memory, await memory.start(given))
            readers = GroupMembers(stage)
            try:
                await scenario(readers)
                await readers.close()
                await stage.close()
            finally:
                await stage.broker.stop()
                await memory.close()

        run_virtually(main)

    return run


ALL = ["range", "roundrobin", "sticky", "cooperative-sticky"]


@pytest.mark.parametrize("strategy", ALL)
def test_members_that_come_and_go_share_all_partitions(play: Play, strategy: str) -> None:
    async def scenario(group: GroupMembers) -> None:
        partitions = await group.create("t", 6)
        how = {"partition_assignment_strategy": strategy}
        first = await group.polling("a", "t", **how)
        await group.until_shared([first], partitions)
        second = await group.polling("b", "t", **how)
        third = await group.polling("c", "t", **how)
        await group.until_shared([first, second, third], partitions)
        await asyncio.sleep(5)
        assert sorted(len(one.assigned) for one in group.all) == [2, 2, 2]
        await first.close()
        await group.until_shared([second, third], partitions)
        assert [one.failures for one in group.all] == [[], [], []]

    play(scenario)


COOPERATIVE = {"partition_assignment_strategy": "cooperative-sticky"}
EAGER = {"partition_assignment_strategy": "sticky"}


def test_eager_members_give_everything_up_and_cooperative_ones_only_what_others_get(play: Play) -> None:
    async def scenario(group: GroupMembers) -> None:
        partitions = await group.create("t", 4)
        for how, revoked_count in ((EAGER, 4), (COOPERATIVE, 2)):
            name = how["partition_assignment_strategy"]
            first = await group.polling(f"{name}-1", "t", group_id=name, **how)
            await group.until_shared([first], partitions)
            second = await group.polling(f"{name}-2", "t", group_id=name, **how)
            await group.until_shared([first, second], partitions)
            revoked = [tp for word, those in first.heard if word == "revoked" for tp in those]
            assert len(revoked) == revoked_count
            assert first.words[0] == "assigned"
            assert "lost" not in first.words

    play(scenario)


def test_a_cooperative_member_reads_on_while_others_join(play: Play) -> None:
    async def scenario(group: GroupMembers) -> None:
        partitions = await group.create("t", 4)
        first = await group.polling("a", "t", **COOPERATIVE)
        await group.until_shared([first], partitions)
        await first.stop_polling()
        second = await group.reader("b", **COOPERATIVE).subscribe("t")
        second.keep_polling()
        least = 4
        for _ in range(100):
            assert await first.poll(0), "there is always something to read"
            least = min(least, len(first.assigned))
            await asyncio.sleep(0.1)
        assert least == 2
        await group.until_shared([first, second], partitions)

    play(scenario)


def test_an_eager_member_has_nothing_to_read_until_all_have_joined(play: Play) -> None:
    async def scenario(group: GroupMembers) -> None:
        partitions = await group.create("t", 4)
        first = await group.polling("a", "t", **EAGER)
        await group.until_shared([first], partitions)
        second = await group.polling("b", "t", **EAGER)
        await group.until_shared([first, second], partitions)
        await second.stop_polling()
        first.coordinator.request_rejoin("just so")
        await first.stop_polling()
        assert not await first.poll(5000)
        assert first.assigned == set()
        second.keep_polling()
        first.keep_polling()
        await group.until_shared([first, second], partitions)

    play(scenario)


def test_heartbeats_go_on_while_the_application_works(play: Play) -> None:
    async def scenario(group: GroupMembers) -> None:
        partitions = await group.create("t", 2)
        first = await group.polling("a", "t")
        second = await group.polling("b", "t")
        await group.until_shared([first, second], partitions)
        await first.stop_polling()
        heard = len(second.heard)
        await asyncio.sleep(50)
        assert len(second.heard) == heard
        assert await first.poll()
        assert first.words[-1] == "assigned"

    play(scenario)


def test_an_application_that_does_not_poll_loses_its_partitions_until_it_does(
    play: Play, caplog: pytest.LogCaptureFixture
) -> None:
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


def test_a_member_that_cannot_be_heard_loses_its_partitions_and_comes_back(play: Play) -> None:
    async def scenario(group: GroupMembers) -> None:
        partitions = await group.create("t", 2)
        first = await group.polling("a", "t")
        second = await group.polling("b", "t")
        await group.until_shared([first, second], partitions)
        group.stage.network.part("a", "broker")
        await asyncio.sleep(40)
        assert second.assigned == set(partitions)
        group.stage.network.heal()
        await group.until_shared([first, second], partitions)
        assert "lost" in first.words

    play(scenario)


def test_a_heartbeat_without_answer_has_the_coordinator_found_again(play: Play) -> None:
    async def scenario(group: GroupMembers) -> None:
        partitions = await group.create("t", 2)
        first = await group.polling("a", "t")
        await group.until_shared([first], partitions)
        for connection in group.stage.network.connections:
            if connection.host == "a":
                connection.mute()
        await asyncio.sleep(60)
        await group.until_shared([first], partitions)
        assert first.failures == []

    play(scenario)


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
@pytest.mark.parametrize("violently", [False, True])
def test_groups_outlive_their_coordinator(play: Play, strategy: str, violently: bool) -> None:
    async def scenario(group: GroupMembers) -> None:
        partitions = await group.create("t", 4)
        how = {"partition_assignment_strategy": strategy}
        both = [await group.polling("a", "t", **how), await group.polling("b", "t", **how)]
        await group.until_shared(both, partitions)
        stage = group.stage
        await (stage.broker.kill() if violently else stage.broker.stop())
        await asyncio.sleep(3)
        stage.broker = await stage.memory.start(BROKER)
        await asyncio.sleep(20)
        await group.until_shared(both, partitions)
        await both[0].coordinator.commit({partitions[0]: OffsetAndMetadata(7)}, 20_000)
        third = await group.polling("c", "t", **how)
        await group.until_shared([*both, third], partitions)
        assert [one.failures for one in group.all] == [[], [], []]

    play(scenario)


def test_topics_that_grow_and_topics_that_come_are_shared_too(play: Play) -> None:
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
        assert [one.failures for one in group.all] == [[], []]

    play(scenario)


def test_a_topic_that_comes_later_is_assigned_when_it_is_there(play: Play) -> None:
    async def scenario(group: GroupMembers) -> None:
        first = await group.polling("a", "t", "late")
        partitions = await group.create("t", 1)
        await group.until_shared([first], partitions)
        partitions += await group.create("late", 2)
        await group.until_shared([first], partitions)

    play(scenario)


def test_members_with_different_wishes_get_what_they_want(play: Play) -> None:
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


def test_internal_topics_match_a_pattern_only_on_demand(play: Play) -> None:
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


def test_static_members_come_back_to_what_they_had(play: Play) -> None:
    async def scenario(group: GroupMembers) -> None:
        partitions = await group.create("t", 4)
        first = await group.polling("a", "t", group_instance_id="one")
        second = await group.polling("b", "t", group_instance_id="two")
        await group.until_shared([first, second], partitions)
        had, heard = first.assigned, list(second.heard)
        await first.close()
        await asyncio.sleep(5)
        again = await group.polling("c", "t", group_instance_id="one")
        await group.until_shared([again, second], partitions)
        assert again.assigned == had
        assert second.heard == heard, "nobody else noticed"

    play(scenario)


def test_a_static_member_is_told_when_another_has_taken_its_name(play: Play) -> None:
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


def test_a_listener_that_raises_is_heard_of_after_the_rebalance(play: Play) -> None:
    async def scenario(group: GroupMembers) -> None:
        partitions = await group.create("t", 2)
        first = await group.reader("a").subscribe("t")
        first.raises["assigned"] = ValueError("cannot take it")
        with pytest.raises(ValueError, match="cannot take it"):
            await first.poll(10_000)
        assert first.assigned == set(partitions)
        first.raises["revoked"] = ValueError("cannot part")
        first.coordinator.request_rejoin("just so")
        with pytest.raises(ValueError, match="cannot part"):
            await first.poll(10_000)
        first.keep_polling()
        await group.until_shared([first], partitions)

    play(scenario)


def test_unsubscribing_leaves_the_group(play: Play) -> None:
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


def test_a_full_group_refuses_and_says_so(play: Play) -> None:
    async def scenario(group: GroupMembers) -> None:
        partitions = await group.create("t", 2)
        first = await group.polling("a", "t")
        await group.until_shared([first], partitions)
        second = await group.reader("b").subscribe("t")
        with pytest.raises(RequestRefused) as raised:
            await second.poll(10_000)
        assert raised.value.code is ErrorCode.GROUP_MAX_SIZE_REACHED

    play(scenario, group_max_size="1")


def test_members_without_an_assignor_in_common_do_not_mix(play: Play) -> None:
    async def scenario(group: GroupMembers) -> None:
        partitions = await group.create("t", 2)
        first = await group.polling("a", "t", **EAGER)
        await group.until_shared([first], partitions)
        second = await group.reader("b", partition_assignment_strategy="range").subscribe("t")
        with pytest.raises(RequestRefused) as raised:
            await second.poll(10_000)
        assert raised.value.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    play(scenario)


def test_a_group_is_brought_from_eager_to_cooperative_one_restart_after_another(play: Play) -> None:
    async def scenario(group: GroupMembers) -> None:
        partitions = await group.create("t", 4)
        both = {"partition_assignment_strategy": "cooperative-sticky,range"}
        members = [await group.polling(f"old{index}", "t") for index in range(2)]
        await group.until_shared(members, partitions)
        for round_, how in enumerate((both, COOPERATIVE)):
            for index in range(2):
                await members[index].close()
                members[index] = await group.polling(f"new{round_}{index}", "t", **how)
                await group.until_shared(members, partitions)
        assert [one.failures for one in group.all] == [[]] * 6

    play(scenario)


class EverythingToTheLoudest:
    """An assignor of an application, with words of its own in both directions."""

    name = "loudest"
    protocols = frozenset({RebalanceProtocol.EAGER})

    def __init__(self, loudness: int) -> None:
        self.loudness = loudness
        self.told: list[tuple[bytes | None, int]] = []

    def user_data(self, topics: frozenset[str]) -> bytes | None:
        assert topics == {"t"}
        return bytes([self.loudness])

    def assign(self, topics: Any, members: Any) -> dict[str, Assignment]:
        loudest = max(members, key=lambda member: member.user_data)
        everything = [TopicPartition("t", index) for index in range(len(topics["t"]))]
        return {loudest.member_id: Assignment(everything, b"you")}

    def on_assignment(self, assignment: Assignment, generation: int) -> None:
        self.told.append((assignment.user_data, generation))


def test_assignors_of_the_application_have_their_way(play: Play) -> None:
    async def scenario(group: GroupMembers) -> None:
        partitions = await group.create("t", 3)
        assignors = [EverythingToTheLoudest(2), EverythingToTheLoudest(9)]
        readers = [await group.reader(f"m{i}", [each]).subscribe("t") for i, each in enumerate(assignors)]
        for one in readers:
            one.keep_polling()
        await group.until_shared(readers, partitions)
        await asyncio.sleep(5)
        assert [len(one.assigned) for one in readers] == [0, 3]
        assert assignors[1].told[-1][0] == b"you"
        assert assignors[0].told[-1][0] is None
        assert assignors[0].told[-1][1] == assignors[1].told[-1][1] >= 1

    play(scenario)


class Snatching(EverythingToTheLoudest):
    """Claims to be cooperative, and takes partitions from those who have them."""

    name = "snatching"
    protocols = frozenset({RebalanceProtocol.COOPERATIVE})


def test_an_assignor_that_gives_what_others_have_is_refused_in_a_cooperative_group(play: Play) -> None:
    async def scenario(group: GroupMembers) -> None:
        partitions = await group.create("t", 3)
        first = await group.reader("a", [Snatching(1)]).subscribe("t")
        first.keep_polling()
        await group.until_shared([first], partitions)
        second = await group.reader("b", [Snatching(2)]).subscribe("t")
        second.keep_polling()
        await group.until(lambda: bool(first.failures or second.failures))
        failure = (first.failures + second.failures)[0]
        assert isinstance(failure, InvalidState)
        assert "must withhold it" in str(failure)

    play(scenario)


def test_a_member_that_cannot_be_understood_is_told_of_and_forgotten(play: Play) -> None:
    async def scenario(group: GroupMembers) -> None:
        partitions = await group.create("t", 3)
        first = await group.polling("a", "t")
        await group.until_shared([first], partitions)
        other = await group.stage.cluster()
        node = await other.coordinator(CoordinatorType.GROUP, "g", 5000)
        range_ = JoinGroupRequestProtocol(name="range", metadata=b"?")
        babble = JoinGroupRequest(
            group_id="g", session_timeout_ms=6000, protocol_type="consumer", protocols=[range_]
        )
        await other.send(node, babble, version_max=3)
        await group.until(lambda: bool(first.failures))
        assert isinstance(first.failures[0], ClientError)
        assert "cannot be read" in str(first.failures[0])
        await group.until_shared([first], partitions)

    play(scenario)
