"""What an application gives to a consumer that makes no sense: refused in words of ours, nothing is done."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.simulation.consumer_fixture import ConsumerFixture, play, values_of

from odradek.client.values import OffsetAndMetadata
from odradek.model.client_errors import InvalidState
from odradek.model.ids import TopicPartition

A0 = TopicPartition("a", 0)
BROKER = {"offsets.topic.replication.factor": "1", "offsets.topic.num.partitions": "1"}


class Index:
    """A whole number of somebody else's kind."""

    def __index__(self) -> int:
        return 1


@pytest.mark.parametrize("offset", ["1", None, 1.0, -1, OffsetAndMetadata(-1), True, 2**63])
def test_only_offsets_can_be_sought_and_committed(offset: Any) -> None:
    async def scenario(stage: ConsumerFixture) -> None:
        await stage.create("a")
        await stage.write(A0, b"0", b"1")
        reader = stage.reader(A0, group_id="g")
        with pytest.raises(InvalidState, match="a-0"):
            reader.seek(A0, offset)
        with pytest.raises(InvalidState, match="a-0"):
            await reader.commit({A0: offset})
        with pytest.raises(InvalidState, match="a-0"):
            reader.commit_async({A0: offset})
        assert await reader.committed(A0) == {A0: None}
        assert values_of(await reader.poll(5)) == [b"0", b"1"]

    play(scenario, BROKER)


def test_whole_numbers_of_other_kinds_are_offsets() -> None:
    async def scenario(stage: ConsumerFixture) -> None:
        await stage.create("a")
        await stage.write(A0, b"0", b"1")
        reader = stage.reader(A0, group_id="g")
        one: Any = Index()
        reader.seek(A0, one)
        assert values_of(await reader.poll(5)) == [b"1"]
        await reader.commit({A0: one})
        assert await reader.committed(A0) == {A0: OffsetAndMetadata(1)}

    play(scenario, BROKER)


def test_a_pattern_that_is_none_is_told_with_its_words() -> None:
    async def scenario(stage: ConsumerFixture) -> None:
        reader = stage.consumer(group_id="g")
        with pytest.raises(InvalidState, match=r"'\(' is no regular expression"):
            reader.subscribe(pattern="(")
        assert reader.subscription() == frozenset()
        reader.subscribe(["a"])

    play(scenario, BROKER)


def test_a_poll_without_an_end_waits_until_records_come() -> None:
    async def scenario(stage: ConsumerFixture) -> None:
        await stage.create("a")
        await stage.write(A0, b"0")
        reader = stage.reader(A0)
        assert values_of(await reader.poll(None)) == [b"0"]
        with pytest.raises(InvalidState, match="'soon'"):
            await reader.poll("soon")  # type: ignore[arg-type]

    play(scenario, BROKER)
