"""Cluster status: guessed version and partition counts."""

from __future__ import annotations

import pytest
from tests.support.simulation.broker_releases import RELEASES

from odradek.cli.cluster_status import guess_version, partition_counts
from odradek.client.admin.cluster import VersionRange
from odradek.client.values import PartitionInfo
from odradek.wire.apis import API_BY_KEY, APIS


@pytest.mark.parametrize(
    ("release", "guess"), [("0.11", "0.11"), ("1.0", "1.0"), ("2.0", "2.0"), ("2.8", "2.8"), ("4.0", "4.0")]
)
def test_guess_version_of_releases(release: str, guess: str) -> None:
    supported = {
        API_BY_KEY[key].name: VersionRange(*versions)
        for key, versions in RELEASES[release].items()
        if key in API_BY_KEY
    }
    assert guess_version(supported).startswith(guess)


def test_guess_version_of_odradek() -> None:
    assert guess_version({api.name: VersionRange(api.versions[0], api.versions[-1]) for api in APIS}) == "3.9"


def test_guess_version_beyond_known_releases() -> None:
    newest = {"Produce": VersionRange(3, 99), "Fetch": VersionRange(4, 99)}
    assert guess_version(newest) == "4.1 or later"
    assert guess_version({}) == "before 0.11"


def test_partition_counts() -> None:
    partitions = [
        PartitionInfo("a", 0, 1, (1, 2), (1, 2)),
        PartitionInfo("a", 1, 1, (1, 2), (1,)),
        PartitionInfo("a", 2, -1, (1, 2), ()),
    ]
    assert partition_counts(partitions) == (3, 2, 1)
