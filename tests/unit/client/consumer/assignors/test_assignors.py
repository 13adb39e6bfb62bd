"""Laws of the assignors, over random groups; examples of what is easily wrong."""

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
    RangeAssignor,
    RebalanceProtocol,
    RoundRobinAssignor,
    StickyAssignor,
    Topics,
    common_protocol,
    configured_assignors,
)
from odradek.client.consumer.assignors.ownership import Claim, settle
from odradek.client.consumer.assignors.previous_assignment import (
    PreviousAssignment,
    PreviousAssignmentMessage,
    PreviousAssignmentTopic,
    decode_previous_assignment,
    encode_previous_assignment,
    read_generation,
    write_generation,
)
from odradek.client.consumer.assignors.registry import ASSIGNORS
from odradek.model.errors import ConfigError
from odradek.model.ids import TopicPartition
from odradek.wire.message_codecs import encoder

NOWHERE: frozenset[str] = frozenset()
TOPICS = ("t0", "t1", "t2", "t3")
RACKS = ("north", "south", "west")

rack_sets = st.frozensets(st.sampled_from(RACKS), max_size=2)
clusters = st.dictionaries(st.sampled_from(TOPICS), st.lists(rack_sets, max_size=7), min_size=1)
wishes = st.sets(st.sampled_from(TOPICS), min_size=1).map(lambda chosen: tuple(sorted(chosen)))
names = st.sampled_from(list(ASSIGNORS))
sticky_names = st.sampled_from(["sticky", "cooperative-sticky"])


@st.composite
def groups(draw: st.DrawFn, *, equal: bool = False) -> list[Member]:
    shared = draw(wishes) if equal else None
    count = draw(st.integers(1, 6))
    return [
        Member(
            f"m{index}",
            shared or draw(wishes),
            instance_id=draw(st.sampled_from([None, f"i{9 - index}"])),
            rack=draw(st.sampled_from([None, *RACKS])),
        )
        for index in range(count)
    ]


def settled(name: str, topics: Topics, members: Sequence[Member]) -> dict[str, set[TopicPartition]]:
    """What a group has when nobody needs to join again."""
    generation = max(member.generation for member in members)
    assigned = ASSIGNORS[name]().assign(topics, members)
    while name == "cooperative-sticky":
        kept = after(name, members, assigned, generation + 1)
        if all(set(m.owned) <= set(assigned[m.member_id].partitions) for m in members):
            break
        # Who has lost something joins again.
        members, generation = kept, generation + 1
        assigned = ASSIGNORS[name]().assign(topics, members)
    return {member: set(each.partitions) for member, each in assigned.items()}


def after(
    name: str, members: Sequence[Member], assigned: Mapping[str, Assignment], generation: int
) -> list[Member]:
    """The members as they join again, with the memory that their assignor has."""
    joined = []
    for member in members:
        assignor = ASSIGNORS[name]()
        got = assigned.get(member.member_id, Assignment(()))
        assignor.on_assignment(got, generation)
        cooperative = name == "cooperative-sticky"
        joined.append(
            member._replace(
                user_data=assignor.user_data(frozenset(member.topics)),
                owned=tuple(got.partitions) if cooperative else (),
                generation=generation if cooperative else -1,
            )
        )
    return joined


def as_assignments(assigned: Mapping[str, set[TopicPartition]]) -> dict[str, Assignment]:
    return {member: Assignment(sorted(partitions)) for member, partitions in assigned.items()}


def everything_wanted(topics: Topics, members: Sequence[Member]) -> set[TopicPartition]:
    wanted = {topic for member in members for topic in member.topics}
    return {TopicPartition(t, p) for t in wanted & topics.keys() for p in range(len(topics[t]))}


@given(names, clusters, groups())
def test_every_partition_goes_to_exactly_one_member_that_wants_it(
    name: str, topics: Topics, members: list[Member]
) -> None:
    assigned = settled(name, topics, members)
    assert assigned.keys() == {member.member_id for member in members}
    counts = Counter(tp for partitions in assigned.values() for tp in partitions)
    assert counts == dict.fromkeys(everything_wanted(topics, members), 1)
    for member in members:
        assert {tp.topic for tp in assigned[member.member_id]} <= set(member.topics)


@given(st.sampled_from(["roundrobin", "sticky", "cooperative-sticky"]), clusters, groups(equal=True))
def test_equal_wishes_give_shares_that_differ_by_one_at_most(
    name: str, topics: Topics, members: list[Member]
) -> None:
    sizes = [len(partitions) for partitions in settled(name, topics, members).values()]
    assert max(sizes) - min(sizes) <= 1


@given(clusters, groups(equal=True))
def test_range_is_even_in_each_topic(topics: Topics, members: list[Member]) -> None:
    assigned = settled("range", topics, members)
    for topic in set(members[0].topics) & topics.keys():
        sizes = [sum(tp.topic == topic for tp in partitions) for partitions in assigned.values()]
        assert max(sizes) - min(sizes) <= 1


@given(names, clusters, groups())
def test_the_order_in_which_members_are_listed_changes_nothing(
    name: str, topics: Topics, members: list[Member]
) -> None:
    assert settled(name, topics, members) == settled(name, topics, members[::-1])


@given(sticky_names, clusters, groups())
def test_a_second_run_moves_nothing(name: str, topics: Topics, members: list[Member]) -> None:
    # What is far from its owner is dealt out anew each time, as Kafka does it: not sticky, with racks.
    members = [member._replace(rack=None) for member in members]
    first = settled(name, topics, members)
    assert settled(name, topics, after(name, members, as_assignments(first), 1)) == first


@given(sticky_names, clusters, groups(equal=True), st.data())
def test_a_leaving_member_moves_only_what_it_had(
    name: str, topics: Topics, members: list[Member], data: st.DataObject
) -> None:
    members = [member._replace(rack=None) for member in members]
    first = settled(name, topics, members)
    leaver = data.draw(st.sampled_from(members))
    others = [member for member in members if member is not leaver]
    if others:
        second = settled(name, topics, after(name, others, as_assignments(first), 1))
        assert all(first[member.member_id] <= second[member.member_id] for member in others)


@given(sticky_names, clusters, groups(equal=True))
def test_a_new_member_takes_only_its_share(name: str, topics: Topics, members: list[Member]) -> None:
    members = [member._replace(rack=None) for member in members]
    first = settled(name, topics, members)
    joined = [*after(name, members, as_assignments(first), 1), Member("new", members[0].topics)]
    second = settled(name, topics, joined)
    for member in members:
        assert second[member.member_id] <= first[member.member_id]


@given(sticky_names, clusters, groups())
def test_no_single_move_makes_it_more_even(name: str, topics: Topics, members: list[Member]) -> None:
    assigned = settled(name, topics, members)
    for giver, partitions in assigned.items():
        for taker in members:
            if any(tp.topic in taker.topics for tp in partitions):
                assert len(partitions) <= len(assigned[taker.member_id]) + 1, (giver, taker.member_id)


@given(clusters, groups(), st.data())
def test_what_another_holds_is_withheld_until_it_is_given_up(
    topics: Topics, members: list[Member], data: st.DataObject
) -> None:
    holders = {
        tp: data.draw(st.sampled_from([None, *(m.member_id for m in members)]))
        for tp in sorted(everything_wanted(topics, members))
    }
    members = [
        m._replace(owned=tuple(tp for tp, who in holders.items() if who == m.member_id), generation=3)
        for m in members
    ]
    for member, assignment in CooperativeStickyAssignor().assign(topics, members).items():
        assert all(holders[tp] in (None, member) for tp in assignment.partitions)


@given(
    st.lists(st.builds(TopicPartition, st.text(max_size=5), st.integers(0, 9)), unique=True), st.integers(0)
)
def test_the_memory_of_a_sticky_member_survives_the_wire(
    partitions: list[TopicPartition], generation: int
) -> None:
    generation %= 1 << 31
    read = decode_previous_assignment(
        encode_previous_assignment(PreviousAssignment(tuple(partitions), generation))
    )
    assert read is not None
    assert (set(read.partitions), read.generation) == (set(partitions), generation)
    assert read_generation(write_generation(generation)) == generation


@given(st.binary(max_size=40))
def test_user_data_of_others_is_no_memory_and_no_failure(user_data: bytes) -> None:
    StickyAssignor().assign({"t0": [NOWHERE]}, [Member("a", ("t0",), user_data)])
    CooperativeStickyAssignor().assign({"t0": [NOWHERE]}, [Member("a", ("t0",), user_data)])


def test_memory_of_the_first_version_has_no_generation() -> None:
    topic = PreviousAssignmentTopic(topic="t0", partitions=[1])
    old = bytes(encoder(PreviousAssignmentMessage, 0)(PreviousAssignmentMessage(previous_assignment=[topic])))
    assert decode_previous_assignment(old) == PreviousAssignment((TopicPartition("t0", 1),), -1)


def test_a_later_generation_outdoes_an_earlier_one_and_two_of_the_same_outdo_each_other() -> None:
    first, second = TopicPartition("t", 0), TopicPartition("t", 1)
    wants = frozenset({"t"})
    claims = [
        Claim("a", wants, (first, second), 4),
        Claim("b", wants, (first,), 5),
        Claim("c", wants, (second,), 4),
    ]
    ownership = settle(claims, {"t": [NOWHERE] * 2})
    assert ownership.owned == {"a": [], "b": [first], "c": []}
    assert ownership.disputed == {second}


def test_disputed_partitions_go_to_nobody_until_all_have_given_them_up() -> None:
    disputed = TopicPartition("t", 0)
    members = [Member(name, ("t",), owned=(disputed,), generation=4) for name in "ab"]
    assigned = CooperativeStickyAssignor().assign({"t": [NOWHERE]}, members)
    assert [list(each.partitions) for each in assigned.values()] == [[], []]


def test_a_member_that_missed_a_generation_gets_back_what_it_had_if_that_helps() -> None:
    partitions = tuple(TopicPartition("t", index) for index in range(4))
    members = [
        Member("a", ("t", "u"), owned=partitions, generation=5),
        Member("b", ("t",)),
        Member("c", ("t",), owned=partitions[:1], generation=4),
    ]
    assert settled("cooperative-sticky", {"t": [NOWHERE] * 4}, members)["c"] == {partitions[0]}


def test_partitions_that_are_gone_are_not_kept() -> None:
    owned = tuple(TopicPartition("t", index) for index in range(5))
    members = [Member("a", ("t",), owned=owned, generation=1), Member("b", ("t", "gone"))]
    assigned = settled("cooperative-sticky", {"t": [NOWHERE] * 2}, members)
    assert {tp for each in assigned.values() for tp in each} == set(owned[:2])


def test_members_get_the_same_numbers_of_topics_that_are_cut_alike() -> None:
    topics = {"t": [NOWHERE] * 5, "u": [NOWHERE] * 5}
    for partitions in settled("range", topics, [Member(name, ("t", "u")) for name in "abc"]).values():
        assert {tp.partition for tp in partitions if tp.topic == "t"} == {
            tp.partition for tp in partitions if tp.topic == "u"
        }


@pytest.mark.parametrize("name", ["range", "sticky", "cooperative-sticky"])
def test_replicas_nearby_are_preferred(name: str) -> None:
    topics = {"t": [frozenset({RACKS[index % 3]}) for index in range(6)]}
    members = [Member(f"m{index}", ("t",), rack=RACKS[2 - index]) for index in range(3)]
    assigned = settled(name, topics, members)
    for member in members:
        assert {RACKS[tp.partition % 3] for tp in assigned[member.member_id]} == {member.rack}


def test_static_members_keep_their_turn_when_they_come_back_with_another_id() -> None:
    topics = {"t": [NOWHERE] * 4}
    before = RoundRobinAssignor().assign(topics, [Member("z", ("t",), instance_id="1"), Member("a", ("t",))])
    later = RoundRobinAssignor().assign(topics, [Member("zz", ("t",), instance_id="1"), Member("a", ("t",))])
    assert before["z"] == later["zz"]


def test_a_group_changes_over_cooperatively_if_all_its_assignors_can() -> None:
    chosen = configured_assignors(["range", "cooperative-sticky"])
    assert [one.name for one in chosen] == ["range", "cooperative-sticky"]
    assert common_protocol(chosen) is RebalanceProtocol.EAGER
    assert common_protocol(chosen[1:]) is RebalanceProtocol.COOPERATIVE


def test_own_assignors_take_the_place_of_those_named() -> None:
    own = RangeAssignor()
    assert configured_assignors(["sticky"], [own]) == (own,)


@pytest.mark.parametrize("wrong", [[], ["rnge"], ["range", "range"]])
def test_wrong_choices_of_assignors_are_refused(wrong: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"partition\.assignment\.strategy"):
        configured_assignors(wrong)


@pytest.mark.parametrize("name", list(ASSIGNORS))
@pytest.mark.parametrize("wanted_count", [2, 50, 100])
def test_a_thousand_members_and_ten_thousand_partitions_take_seconds(name: str, wanted_count: int) -> None:
    topics = {f"t{index}": [NOWHERE] * 100 for index in range(100)}
    members = [
        Member(f"m{i}", tuple(f"t{(i * 7 + j * 13) % 100}" for j in range(wanted_count))) for i in range(1000)
    ]
    started = time.process_time()
    assigned = ASSIGNORS[name]().assign(topics, members)
    assert sum(len(each.partitions) for each in assigned.values()) == 10_000
    assert time.process_time() - started < 5
