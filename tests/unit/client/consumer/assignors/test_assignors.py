"""Properties of the assignors over random groups, and edge cases."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.client.consumer.assignors import (
    Assignment,
    CooperativeStickyAssignor,
    Member,
    PartitionRacks,
    RangeAssignor,
    RebalanceProtocol,
    RoundRobinAssignor,
    StickyAssignor,
    common_protocol,
    configured_assignors,
)
from odradek.client.consumer.assignors.ownership import Claim, resolve_claims
from odradek.client.consumer.assignors.previous_assignment import (
    PreviousAssignment,
    PreviousAssignmentMessage,
    PreviousAssignmentTopic,
    decode_generation,
    decode_previous_assignment,
    encode_generation,
    encode_previous_assignment,
)
from odradek.client.consumer.assignors.registry import ASSIGNORS
from odradek.model.errors import ConfigError
from odradek.model.ids import TopicPartition
from odradek.wire.message_codecs import encoder

NO_RACKS: frozenset[str] = frozenset()
TOPICS = ("t0", "t1", "t2", "t3")
RACKS = ("north", "south", "west")

rack_sets = st.frozensets(st.sampled_from(RACKS), max_size=2)
clusters = st.dictionaries(st.sampled_from(TOPICS), st.lists(rack_sets, max_size=7), min_size=1)
subscriptions = st.sets(st.sampled_from(TOPICS), min_size=1).map(lambda chosen: tuple(sorted(chosen)))
names = st.sampled_from(list(ASSIGNORS))
sticky_names = st.sampled_from(["sticky", "cooperative-sticky"])


@st.composite
def groups(draw: st.DrawFn, *, equal: bool = False) -> list[Member]:
    shared = draw(subscriptions) if equal else None
    count = draw(st.integers(1, 6))
    return [
        Member(
            f"m{index}",
            shared or draw(subscriptions),
            instance_id=draw(st.sampled_from([None, f"i{9 - index}"])),
            rack=draw(st.sampled_from([None, *RACKS])),
        )
        for index in range(count)
    ]


def final_assignment(
    name: str, topics: PartitionRacks, members: Sequence[Member]
) -> dict[str, set[TopicPartition]]:
    """Return the assignment after all rounds of rejoining."""
    generation = max(member.generation for member in members)
    assigned = ASSIGNORS[name]().assign(topics, members)
    while name == "cooperative-sticky":
        kept = after(name, members, assigned, generation + 1)
        if all(set(m.owned) <= set(assigned[m.member_id].partitions) for m in members):
            break
        # Members that lost a partition rejoin.
        members, generation = kept, generation + 1
        assigned = ASSIGNORS[name]().assign(topics, members)
    return {member: set(assignment.partitions) for member, assignment in assigned.items()}


def after(
    name: str, members: Sequence[Member], assigned: Mapping[str, Assignment], generation: int
) -> list[Member]:
    """Return the members as they rejoin, with the user data of their assignors."""
    joined = []
    for member in members:
        assignor = ASSIGNORS[name]()
        assignment = assigned.get(member.member_id, Assignment(()))
        assignor.on_assignment(assignment, generation)
        cooperative = name == "cooperative-sticky"
        joined.append(
            member._replace(
                user_data=assignor.user_data(frozenset(member.topics)),
                owned=tuple(assignment.partitions) if cooperative else (),
                generation=generation if cooperative else -1,
            )
        )
    return joined


def as_assignments(assigned: Mapping[str, set[TopicPartition]]) -> dict[str, Assignment]:
    return {member: Assignment(sorted(partitions)) for member, partitions in assigned.items()}


def subscribed_partitions(topics: PartitionRacks, members: Sequence[Member]) -> set[TopicPartition]:
    subscribed = {topic for member in members for topic in member.topics}
    return {TopicPartition(t, p) for t in subscribed & topics.keys() for p in range(len(topics[t]))}


@given(names, clusters, groups())
def test_every_partition_is_assigned_to_one_subscriber(
    name: str, topics: PartitionRacks, members: list[Member]
) -> None:
    assigned = final_assignment(name, topics, members)
    assert assigned.keys() == {member.member_id for member in members}
    counts = Counter(tp for partitions in assigned.values() for tp in partitions)
    assert counts == dict.fromkeys(subscribed_partitions(topics, members), 1)
    for member in members:
        assert {tp.topic for tp in assigned[member.member_id]} <= set(member.topics)


@given(st.sampled_from(["roundrobin", "sticky", "cooperative-sticky"]), clusters, groups(equal=True))
def test_equal_subscriptions_are_balanced(name: str, topics: PartitionRacks, members: list[Member]) -> None:
    sizes = [len(partitions) for partitions in final_assignment(name, topics, members).values()]
    assert max(sizes) - min(sizes) <= 1


@given(clusters, groups(equal=True))
def test_range_is_balanced_per_topic(topics: PartitionRacks, members: list[Member]) -> None:
    assigned = final_assignment("range", topics, members)
    for topic in set(members[0].topics) & topics.keys():
        sizes = [sum(tp.topic == topic for tp in partitions) for partitions in assigned.values()]
        assert max(sizes) - min(sizes) <= 1


@given(names, clusters, groups())
def test_assignment_is_independent_of_member_order(
    name: str, topics: PartitionRacks, members: list[Member]
) -> None:
    assert final_assignment(name, topics, members) == final_assignment(name, topics, members[::-1])


@given(sticky_names, clusters, groups())
def test_repeated_assignment_moves_nothing(name: str, topics: PartitionRacks, members: list[Member]) -> None:
    # Partitions in another rack than their owner are reassigned each time, as in Kafka: not sticky.
    members = [member._replace(rack=None) for member in members]
    first = final_assignment(name, topics, members)
    assert final_assignment(name, topics, after(name, members, as_assignments(first), 1)) == first


@given(sticky_names, clusters, groups(equal=True), st.data())
def test_leaving_member_moves_only_its_partitions(
    name: str, topics: PartitionRacks, members: list[Member], data: st.DataObject
) -> None:
    members = [member._replace(rack=None) for member in members]
    first = final_assignment(name, topics, members)
    leaver = data.draw(st.sampled_from(members))
    others = [member for member in members if member is not leaver]
    if others:
        second = final_assignment(name, topics, after(name, others, as_assignments(first), 1))
        assert all(first[member.member_id] <= second[member.member_id] for member in others)


@given(sticky_names, clusters, groups(equal=True))
def test_new_member_takes_only_its_quota(name: str, topics: PartitionRacks, members: list[Member]) -> None:
    members = [member._replace(rack=None) for member in members]
    first = final_assignment(name, topics, members)
    joined = [*after(name, members, as_assignments(first), 1), Member("new", members[0].topics)]
    second = final_assignment(name, topics, joined)
    for member in members:
        assert second[member.member_id] <= first[member.member_id]


@given(sticky_names, clusters, groups())
def test_no_single_move_improves_balance(name: str, topics: PartitionRacks, members: list[Member]) -> None:
    assigned = final_assignment(name, topics, members)
    for source, partitions in assigned.items():
        for member in members:
            if any(tp.topic in member.topics for tp in partitions):
                assert len(partitions) <= len(assigned[member.member_id]) + 1, (source, member.member_id)


@given(clusters, groups(), st.data())
def test_owned_partitions_are_withheld_until_revoked(
    topics: PartitionRacks, members: list[Member], data: st.DataObject
) -> None:
    owners = {
        tp: data.draw(st.sampled_from([None, *(m.member_id for m in members)]))
        for tp in sorted(subscribed_partitions(topics, members))
    }
    members = [
        m._replace(owned=tuple(tp for tp, owner in owners.items() if owner == m.member_id), generation=3)
        for m in members
    ]
    for member, assignment in CooperativeStickyAssignor().assign(topics, members).items():
        assert all(owners[tp] in (None, member) for tp in assignment.partitions)


@given(
    st.lists(st.builds(TopicPartition, st.text(max_size=5), st.integers(0, 9)), unique=True), st.integers(0)
)
def test_previous_assignment_round_trip(partitions: list[TopicPartition], generation: int) -> None:
    generation %= 1 << 31
    decoded = decode_previous_assignment(
        encode_previous_assignment(PreviousAssignment(tuple(partitions), generation))
    )
    assert decoded is not None
    assert (set(decoded.partitions), decoded.generation) == (set(partitions), generation)
    assert decode_generation(encode_generation(generation)) == generation


@given(st.binary(max_size=40))
def test_foreign_user_data_is_ignored(user_data: bytes) -> None:
    StickyAssignor().assign({"t0": [NO_RACKS]}, [Member("a", ("t0",), user_data)])
    CooperativeStickyAssignor().assign({"t0": [NO_RACKS]}, [Member("a", ("t0",), user_data)])


def test_previous_assignment_v0_has_no_generation() -> None:
    topic = PreviousAssignmentTopic(topic="t0", partitions=[1])
    old = bytes(encoder(PreviousAssignmentMessage, 0)(PreviousAssignmentMessage(previous_assignment=[topic])))
    assert decode_previous_assignment(old) == PreviousAssignment((TopicPartition("t0", 1),), -1)


def test_claim_of_later_generation_wins() -> None:
    first, second = TopicPartition("t", 0), TopicPartition("t", 1)
    topics = frozenset({"t"})
    claims = [
        Claim("a", topics, (first, second), 4),
        Claim("b", topics, (first,), 5),
        Claim("c", topics, (second,), 4),
    ]
    ownership = resolve_claims(claims, {"t": [NO_RACKS] * 2})
    assert ownership.owned == {"a": [], "b": [first], "c": []}
    assert ownership.disputed == {second}


def test_disputed_partitions_are_withheld() -> None:
    disputed = TopicPartition("t", 0)
    members = [Member(name, ("t",), owned=(disputed,), generation=4) for name in "ab"]
    assigned = CooperativeStickyAssignor().assign({"t": [NO_RACKS]}, members)
    assert [list(assignment.partitions) for assignment in assigned.values()] == [[], []]


def test_member_regains_partitions_of_earlier_generation() -> None:
    partitions = tuple(TopicPartition("t", index) for index in range(4))
    members = [
        Member("a", ("t", "u"), owned=partitions, generation=5),
        Member("b", ("t",)),
        Member("c", ("t",), owned=partitions[:1], generation=4),
    ]
    assert final_assignment("cooperative-sticky", {"t": [NO_RACKS] * 4}, members)["c"] == {partitions[0]}


def test_deleted_partitions_are_not_assigned() -> None:
    owned = tuple(TopicPartition("t", index) for index in range(5))
    members = [Member("a", ("t",), owned=owned, generation=1), Member("b", ("t", "gone"))]
    assigned = final_assignment("cooperative-sticky", {"t": [NO_RACKS] * 2}, members)
    assert {tp for partitions in assigned.values() for tp in partitions} == set(owned[:2])


def test_range_copartitions_topics() -> None:
    topics = {"t": [NO_RACKS] * 5, "u": [NO_RACKS] * 5}
    for partitions in final_assignment(
        "range", topics, [Member(name, ("t", "u")) for name in "abc"]
    ).values():
        assert {tp.partition for tp in partitions if tp.topic == "t"} == {
            tp.partition for tp in partitions if tp.topic == "u"
        }


@pytest.mark.parametrize("name", ["range", "sticky", "cooperative-sticky"])
def test_rack_local_partitions_are_preferred(name: str) -> None:
    topics = {"t": [frozenset({RACKS[index % 3]}) for index in range(6)]}
    members = [Member(f"m{index}", ("t",), rack=RACKS[2 - index]) for index in range(3)]
    assigned = final_assignment(name, topics, members)
    for member in members:
        assert {RACKS[tp.partition % 3] for tp in assigned[member.member_id]} == {member.rack}


def test_static_member_keeps_order_with_new_member_id() -> None:
    topics = {"t": [NO_RACKS] * 4}
    before = RoundRobinAssignor().assign(topics, [Member("z", ("t",), instance_id="1"), Member("a", ("t",))])
    later = RoundRobinAssignor().assign(topics, [Member("zz", ("t",), instance_id="1"), Member("a", ("t",))])
    assert before["z"] == later["zz"]


def test_protocol_is_cooperative_if_all_assignors_support_it() -> None:
    assignors = configured_assignors(["range", "cooperative-sticky"])
    assert [assignor.name for assignor in assignors] == ["range", "cooperative-sticky"]
    assert common_protocol(assignors) is RebalanceProtocol.EAGER
    assert common_protocol(assignors[1:]) is RebalanceProtocol.COOPERATIVE


def test_custom_assignors_replace_configured_ones() -> None:
    custom = RangeAssignor()
    assert configured_assignors(["sticky"], [custom]) == (custom,)


@pytest.mark.parametrize("names", [[], ["rnge"], ["range", "range"]])
def test_invalid_assignor_configuration_is_rejected(names: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"partition\.assignment\.strategy"):
        configured_assignors(names)


@pytest.mark.parametrize("name", list(ASSIGNORS))
@pytest.mark.parametrize("topic_count", [2, 50, 100])
def test_large_group_is_assigned_within_seconds(name: str, topic_count: int) -> None:
    topics = {f"t{index}": [NO_RACKS] * 100 for index in range(100)}
    members = [
        Member(f"m{i}", tuple(f"t{(i * 7 + j * 13) % 100}" for j in range(topic_count))) for i in range(1000)
    ]
    started = time.process_time()
    assigned = ASSIGNORS[name]().assign(topics, members)
    assert sum(len(assignment.partitions) for assignment in assigned.values()) == 10_000
    assert time.process_time() - started < 5
