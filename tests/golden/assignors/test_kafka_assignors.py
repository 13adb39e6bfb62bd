"""Assignments equal those of Kafka's assignors for the same random groups.

``assigned.jsonl`` was written by the clients of Kafka 3.9.1: one case per line, with topics (the racks of
each partition), members, their previous partitions, and the assignment. Range and round robin must be equal.
The sticky assignors of Kafka depend on the order of a hash table: there balance and number of moves must be
equal.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from odradek.client.consumer.assignors import Member
from odradek.client.consumer.assignors.previous_assignment import (
    decode_previous_assignment,
    encode_previous_assignment,
)
from odradek.client.consumer.assignors.registry import ASSIGNORS
from odradek.model.ids import TopicPartition

CASES = [json.loads(line) for line in Path(__file__).with_name("assigned.jsonl").read_text().splitlines()]
IDS = [f"{case['assignor']}-{index // 4}" for index, case in enumerate(CASES)]


def members_of(case: dict[str, Any]) -> list[Member]:
    return [
        Member(
            member["id"],
            tuple(member["topics"]),
            None if member["user_data"] is None else bytes.fromhex(member["user_data"]),
            tuple(TopicPartition(*each) for each in member["owned"]),
            member["generation"],
            member["instance"],
            member["rack"],
        )
        for member in case["members"]
    ]


def balance(assigned: dict[str, set[TopicPartition]]) -> list[int]:
    return sorted(len(partitions) for partitions in assigned.values())


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_assignments_equal_kafka(case: dict[str, Any]) -> None:
    topics = {name: [frozenset(racks) for racks in each] for name, each in case["topics"].items()}
    result = ASSIGNORS[case["assignor"]]().assign(topics, members_of(case))
    ours = {member: set(assignment.partitions) for member, assignment in result.items()}
    theirs = {member: {TopicPartition(*tp) for tp in each} for member, each in case["assigned"].items()}
    if "sticky" not in case["assignor"]:
        assert ours == theirs
        return
    previous = {member["id"]: {TopicPartition(*tp) for tp in member["had"]} for member in case["members"]}
    assert balance(ours) == balance(theirs)
    assert sum(len(previous[m] - ours[m]) for m in ours) == sum(len(previous[m] - theirs[m]) for m in theirs)


def test_previous_assignment_is_encoded_as_in_kafka() -> None:
    written = [
        (bytes.fromhex(member["user_data"]), {TopicPartition(*tp) for tp in member["had"]})
        for case in CASES
        for member in case["members"]
        if member["user_data"] is not None
    ]
    assert written
    for user_data, had in written:
        memory = decode_previous_assignment(user_data)
        assert memory is not None
        assert set(memory.partitions) == had
        assert memory.generation == 3
        again = decode_previous_assignment(encode_previous_assignment(memory))
        assert again is not None
        assert set(again.partitions) == had
        assert len(encode_previous_assignment(memory)) == len(user_data)
