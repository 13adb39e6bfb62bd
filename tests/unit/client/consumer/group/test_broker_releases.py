"""Groups whose coordinator is a broker of an older or a newer release."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.simulation.broker_releases import RELEASES, ReleaseProxy
from tests.support.simulation.client_fixture import ClientFixture
from tests.support.simulation.group_members import GroupMembers

from odradek.client.values import OffsetAndMetadata
from odradek.model.client_errors import UnsupportedVersion
from odradek.testing.broker import MemoryCluster
from odradek.testing.clock import run_virtually

BROKER = {
    "advertised.listeners": "PLAINTEXT://disguised:9092",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
}
GROUP_APIS = {8: 9, 9: 9, 11: 9, 12: 4, 14: 5}
"""OffsetCommit, OffsetFetch, JoinGroup, Heartbeat and SyncGroup, with the highest version that we speak."""


def play(release: str, scenario: Any) -> None:
    async def main() -> None:
        memory = MemoryCluster()
        stage = ClientFixture(memory, await memory.start(BROKER))
        disguise = ReleaseProxy(stage.network, "disguised", RELEASES[release], ("broker", 9092))
        await disguise.listen(9092)
        readers = GroupMembers(stage)
        try:
            await scenario(readers, disguise)
            await readers.close()
            assert disguise.refused == []
            await stage.close()
        finally:
            disguise.close()
            await stage.broker.stop()
            await memory.close()

    run_virtually(main)


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
@pytest.mark.parametrize("release", RELEASES)
def test_groups_work_with_every_release(release: str, strategy: str) -> None:
    async def scenario(group: GroupMembers, disguise: ReleaseProxy) -> None:
        partitions = await group.create("t", 4)
        how = {"bootstrap_servers": "disguised:9092", "partition_assignment_strategy": strategy}
        members = [await group.polling(name, "t", **how) for name in "ab"]
        await group.until_shared(members, partitions)
        note = OffsetAndMetadata(3, "note")
        await members[0].coordinator.commit({partitions[0]: note}, 10_000)
        found = await members[1].coordinator.committed(partitions[:2], 10_000)
        assert found == {partitions[0]: note, partitions[1]: None}
        await members[0].close()
        await group.until_shared(members[1:], partitions)
        spoken = {key: disguise.spoken[key] for key in GROUP_APIS}
        assert spoken == {key: min(ours, RELEASES[release][key][1]) for key, ours in GROUP_APIS.items()}
        assert [one.failures for one in group.all] == [[], []]

    play(release, scenario)


def test_static_members_need_a_broker_that_knows_instances() -> None:
    async def scenario(group: GroupMembers, disguise: ReleaseProxy) -> None:
        await group.create("t", 1)
        how = {"bootstrap_servers": "disguised:9092", "group_instance_id": "one"}
        member = await group.reader("a", **how).subscribe("t")
        with pytest.raises(UnsupportedVersion):
            await member.poll(10_000)

    play("2.0", scenario)
