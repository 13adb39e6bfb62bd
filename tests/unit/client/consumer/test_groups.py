"""Groups of several members against a whole broker, on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.client_stage import Stage
from tests.support.group_readers import Readers

from odradek.model.ids import TopicPartition

Play = Callable[..., None]
BROKER = {
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "3",
}


@pytest.fixture
def play(stage: Any) -> Play:
    """Run a scenario with readers, which are closed at its end."""

    def run(scenario: Callable[[Readers], Any], **settings: str) -> None:
        async def main(played: Stage) -> None:
            readers = Readers(played)
            await scenario(readers)
            await readers.close()

        stage(main, {**BROKER, **{name.replace("_", "."): value for name, value in settings.items()}})

    return run


ALL = ["range", "roundrobin", "sticky", "cooperative-sticky"]


@pytest.mark.parametrize("strategy", ALL)
def test_members_that_come_and_go_share_all_partitions(play: Play, strategy: str) -> None:
    async def scenario(group: Readers) -> None:
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
