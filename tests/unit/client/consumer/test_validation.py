"""Invalid arguments are rejected with ``InvalidState``, and have no effect."""

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
    """An integer-like object."""

    def __index__(self) -> int:
        return 1


@pytest.mark.parametrize("offset", ["1", None, 1.0, -1, OffsetAndMetadata(-1), True, 2**63])
def test_invalid_offset_is_rejected(offset: Any) -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fixture.create("a")
        await fixture.write(A0, b"0", b"1")
        reader = fixture.reader(A0, group_id="g")
        with pytest.raises(InvalidState, match="a-0"):
            reader.seek(A0, offset)
        with pytest.raises(InvalidState, match="a-0"):
            await reader.commit({A0: offset})
        with pytest.raises(InvalidState, match="a-0"):
            reader.commit_async({A0: offset})
        assert await reader.committed(A0) == {A0: None}
        assert values_of(await reader.poll(5)) == [b"0", b"1"]

    play(scenario, BROKER)


def test_index_objects_are_valid_offsets() -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fixture.create("a")
        await fixture.write(A0, b"0", b"1")
        reader = fixture.reader(A0, group_id="g")
        offset: Any = Index()
        reader.seek(A0, offset)
        assert values_of(await reader.poll(5)) == [b"1"]
        await reader.commit({A0: offset})
        assert await reader.committed(A0) == {A0: OffsetAndMetadata(1)}

    play(scenario, BROKER)


def test_invalid_pattern_is_rejected() -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        reader = fixture.consumer(group_id="g")
        with pytest.raises(InvalidState, match=r"pattern must be a regular expression, got '\('"):
            reader.subscribe(pattern="(")
        assert reader.subscription() == frozenset()
        reader.subscribe(["a"])

    play(scenario, BROKER)


def test_poll_without_timeout_waits_for_records() -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fixture.create("a")
        await fixture.write(A0, b"0")
        reader = fixture.reader(A0)
        assert values_of(await reader.poll(None)) == [b"0"]
        with pytest.raises(InvalidState, match="'soon'"):
            await reader.poll("soon")  # type: ignore[arg-type]

    play(scenario, BROKER)
