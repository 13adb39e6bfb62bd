"""Brokers use the versions of versions.txt at each inter-broker protocol version."""

from __future__ import annotations

import pytest
from tests.golden.cluster.recordings import HERE, SCENARIOS, messages

from odradek.cluster.metadata_version import MetadataVersion

IBPS = sorted({ibp for ibp, _ in SCENARIOS})


def read_table() -> dict[str, dict[str, int]]:
    """Return versions by API and the protocol version from which each is used."""
    table = {}
    for line in (HERE / "versions.txt").read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            api, *steps = line.split()
            table[api] = {since: int(version) for since, _, version in (s.partition("=") for s in steps)}
    return table


def used_versions(ibp: str) -> dict[str, set[int]]:
    used: dict[str, set[int]] = {}
    for recording, scenario in SCENARIOS:
        if recording == ibp:
            for message in messages(ibp, scenario):
                used.setdefault(message.recorded.api, set()).add(message.recorded.version)
    return used


def expected_version(steps: dict[str, int], ibp: str) -> int | None:
    reached = [since for since in steps if number(since) <= number(ibp)]
    return steps[max(reached, key=number)] if reached else None


def number(ibp: str) -> tuple[int, int]:
    major, minor = ibp.split(".")
    return int(major), int(minor)


@pytest.mark.parametrize("ibp", IBPS)
def test_versions_are_those_of_the_table(ibp: str) -> None:
    table = read_table()
    used = used_versions(ibp)
    assert used == {api: {expected_version(table[api], ibp)} for api in used}


@pytest.mark.parametrize("ibp", IBPS)
def test_our_brokers_use_the_same_versions(ibp: str) -> None:
    ours = MetadataVersion.parse(ibp)
    used = used_versions(ibp)
    expected = {
        "LeaderAndIsr": ours.leader_and_isr_version,
        "UpdateMetadata": ours.update_metadata_version,
        "StopReplica": ours.stop_replica_version,
        "ControlledShutdown": ours.controlled_shutdown_version,
        "Fetch": ours.fetch_version,
        "ListOffsets": ours.list_offsets_version,
        "WriteTxnMarkers": ours.write_txn_markers_version,
    }
    assert {api: used[api] for api in expected if api in used} == {
        api: {version} for api, version in expected.items() if api in used
    }
    if "WriteTxnMarkers" in used:
        assert ("AllocateProducerIds" in used) == ours.is_allocate_producer_ids_supported


def test_every_row_of_the_table_was_recorded() -> None:
    recorded = {
        (api, version) for ibp in IBPS for api, versions in used_versions(ibp).items() for version in versions
    }
    rows = {(api, version) for api, steps in read_table().items() for version in steps.values()}
    assert rows == recorded
