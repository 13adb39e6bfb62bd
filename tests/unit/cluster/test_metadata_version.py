"""Inter-broker protocol versions and the request versions they select."""

from __future__ import annotations

import pytest

from odradek.cluster.metadata_version import LATEST, OLDEST, MetadataVersion
from odradek.config import metadata_versions


def test_versions_are_those_of_the_setting_in_order() -> None:
    known = [str(version) for version in MetadataVersion]
    first = metadata_versions.KNOWN.index("2.8-IV0")
    assert known == list(metadata_versions.KNOWN[first : first + len(known)])
    assert known[-1] == "3.9-IV0"
    assert list(MetadataVersion) == sorted(MetadataVersion)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("3.9-IV0", MetadataVersion.IBP_3_9_IV0),
        ("3.9", MetadataVersion.IBP_3_9_IV0),
        ("3.9.1", MetadataVersion.IBP_3_9_IV0),
        ("3.3", MetadataVersion.IBP_3_3_IV3),
        ("3.3-IV0", MetadataVersion.IBP_3_3_IV0),
        ("2.8", MetadataVersion.IBP_2_8_IV1),
        ("2.8.2", MetadataVersion.IBP_2_8_IV1),
        ("2.8-IV0", MetadataVersion.IBP_2_8_IV0),
        ("3.7-IV4", MetadataVersion.IBP_3_7_IV4),
    ],
)
def test_parse_accepts_full_versions_and_releases(text: str, version: MetadataVersion) -> None:
    assert MetadataVersion.parse(text) is version


@pytest.mark.parametrize("text", ["2.7", "2.7-IV2", "0.11.0", "4.0-IV0", "3", "", "3.9-IV1", "IBP_3_9_IV0"])
def test_parse_rejects_unknown_old_and_newer_versions(text: str) -> None:
    with pytest.raises(ValueError, match=r"must be between 2\.8-IV0 and 3\.9-IV0, got"):
        MetadataVersion.parse(text)


@pytest.mark.parametrize(
    ("attribute", "first_versions"),
    [
        ("leader_and_isr_version", {"2.8-IV0": 4, "2.8-IV1": 5, "3.2-IV0": 6, "3.4-IV0": 7}),
        ("update_metadata_version", {"2.8-IV0": 6, "2.8-IV1": 7, "3.4-IV0": 8}),
        ("stop_replica_version", {"2.8-IV0": 3, "3.4-IV0": 4}),
        ("controlled_shutdown_version", {"2.8-IV0": 3}),
        (
            "fetch_version",
            {"2.8-IV0": 12, "3.1-IV0": 13, "3.5-IV0": 14, "3.5-IV1": 15, "3.7-IV4": 16, "3.9-IV0": 17},
        ),
        ("list_offsets_version", {"2.8-IV0": 6, "3.0-IV1": 7, "3.5-IV0": 8, "3.9-IV0": 9}),
        ("offset_for_leader_epoch_version", {"2.8-IV0": 4}),
        ("write_txn_markers_version", {"2.8-IV0": 1}),
        ("is_topic_id_supported", {"2.8-IV0": True}),
        ("is_truncation_on_fetch_supported", {"2.8-IV0": True}),
        ("is_alter_partition_supported", {"2.8-IV0": True}),
        ("is_allocate_producer_ids_supported", {"2.8-IV0": False, "3.0-IV0": True}),
        ("is_leader_recovery_supported", {"2.8-IV0": False, "3.2-IV0": True}),
        ("feature_node_version", {"2.8-IV0": 1, "3.3-IV0": 2}),
    ],
)
def test_each_value_changes_at_its_version_only(attribute: str, first_versions: dict[str, int]) -> None:
    expected = None
    for version in MetadataVersion:
        expected = first_versions.get(str(version), expected)
        assert getattr(version, attribute) == expected, str(version)


def test_bounds() -> None:
    assert (str(OLDEST), str(LATEST)) == ("2.8-IV0", "3.9-IV0")
