"""A cluster's state in a few numbers."""

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
def test_a_release_is_guessed_from_the_versions_it_offers(release: str, guess: str) -> None:
    offer = {
        API_BY_KEY[key].name: VersionRange(*of) for key, of in RELEASES[release].items() if key in API_BY_KEY
    }
    assert guess_version(offer).startswith(guess)


def test_our_own_tables_are_those_of_3_9() -> None:
    assert guess_version({api.name: VersionRange(api.versions[0], api.versions[-1]) for api in APIS}) == "3.9"


def test_what_is_newer_or_older_than_all_known_releases_is_said_to_be() -> None:
    newest = {"Produce": VersionRange(3, 99), "Fetch": VersionRange(4, 99)}
    assert guess_version(newest) == "4.1 or later"
    assert guess_version({}) == "before 0.11"


def test_partitions_are_counted_by_what_is_wrong_with_them() -> None:
    partitions = [
        PartitionInfo("a", 0, 1, (1, 2), (1, 2)),
        PartitionInfo("a", 1, 1, (1, 2), (1,)),
        PartitionInfo("a", 2, -1, (1, 2), ()),
    ]
    assert partition_counts(partitions) == (3, 2, 1)
