"""Groups with coordinators of older and newer Kafka releases."""

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
    "advertised.listeners": "PLAINTEXT://proxy:9092",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
}
GROUP_APIS = {8: 9, 9: 9, 11: 9, 12: 4, 14: 5}
"""OffsetCommit, OffsetFetch, JoinGroup, Heartbeat and SyncGroup, with the highest version supported."""


def play(release: str, scenario: Any) -> None:
    async def main() -> None:
        memory = MemoryCluster()
        fixture = ClientFixture(memory, await memory.start(BROKER))
        proxy = ReleaseProxy(fixture.network, "proxy", RELEASES[release], ("broker", 9092))
        await proxy.listen(9092)
        readers = GroupMembers(fixture)
        try:
            await scenario(readers, proxy)
            await readers.close()
            assert proxy.refused == []
            await fixture.close()
        finally:
            proxy.close()
            await fixture.broker.stop()
            await memory.close()

    run_virtually(main)


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
@pytest.mark.parametrize("release", RELEASES)
def test_group_works_with_every_release(release: str, strategy: str) -> None:
    async def scenario(group: GroupMembers, proxy: ReleaseProxy) -> None:
        partitions = await group.create("t", 4)
        options = {"bootstrap_servers": "proxy:9092", "partition_assignment_strategy": strategy}
        members = [await group.polling(name, "t", **options) for name in "ab"]
        await group.until_shared(members, partitions)
        offset = OffsetAndMetadata(3, "metadata")
        await members[0].coordinator.commit({partitions[0]: offset}, 10_000)
        committed = await members[1].coordinator.committed(partitions[:2], 10_000)
        assert committed == {partitions[0]: offset, partitions[1]: None}
        await members[0].close()
        await group.until_shared(members[1:], partitions)
        used = {key: proxy.spoken[key] for key in GROUP_APIS}
        assert used == {key: min(highest, RELEASES[release][key][1]) for key, highest in GROUP_APIS.items()}
        assert [member.failures for member in group.all] == [[], []]

    play(release, scenario)


def test_static_membership_requires_broker_support() -> None:
    async def scenario(group: GroupMembers, proxy: ReleaseProxy) -> None:
        await group.create("t", 1)
        options = {"bootstrap_servers": "proxy:9092", "group_instance_id": "one"}
        member = await group.reader("a", **options).subscribe("t")
        with pytest.raises(UnsupportedVersion):
            await member.poll(10_000)

    play("2.0", scenario)
