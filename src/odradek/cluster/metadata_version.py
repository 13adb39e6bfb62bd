"""Inter-broker protocol version: versions of requests between brokers, and features of the cluster.

Brokers do not negotiate most requests among themselves: ``inter.broker.protocol.version`` decides, so that
brokers of different releases agree during a rolling upgrade. 2.8-IV0 is the oldest supported version.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, Self


class MetadataVersion(IntEnum):
    """A version of the inter-broker protocol; a later one is greater."""

    # fmt: off
    IBP_2_8_IV0 = 0
    IBP_2_8_IV1 = 1
    IBP_3_0_IV0 = 2
    IBP_3_0_IV1 = 3
    IBP_3_1_IV0 = 4
    IBP_3_2_IV0 = 5
    IBP_3_3_IV0 = 6
    IBP_3_3_IV1 = 7
    IBP_3_3_IV2 = 8
    IBP_3_3_IV3 = 9
    IBP_3_4_IV0 = 10
    IBP_3_5_IV0 = 11
    IBP_3_5_IV1 = 12
    IBP_3_5_IV2 = 13
    IBP_3_6_IV0 = 14
    IBP_3_6_IV1 = 15
    IBP_3_6_IV2 = 16
    IBP_3_7_IV0 = 17
    IBP_3_7_IV1 = 18
    IBP_3_7_IV2 = 19
    IBP_3_7_IV3 = 20
    IBP_3_7_IV4 = 21
    IBP_3_8_IV0 = 22
    IBP_3_9_IV0 = 23
    # fmt: on

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a full version (``3.9-IV0``), a release (``3.9``) or a patch release (``3.9.1``).

        Raises ``ValueError`` for any other text, and for a version that is too old or too new.
        """
        release = ".".join(text.split(".")[:2])
        for version in reversed(cls):
            if release in (str(version), version.release):
                return version
        raise ValueError(f"must be between {OLDEST} and {LATEST}, got {text}")

    def __str__(self) -> str:
        _, major, minor, internal = self.name.split("_")
        return f"{major}.{minor}-{internal}"

    @property
    def release(self) -> str:
        return str(self).partition("-")[0]

    # Versions of requests.

    @property
    def leader_and_isr_version(self) -> int:
        if self >= MetadataVersion.IBP_3_4_IV0:
            return 7
        if self >= MetadataVersion.IBP_3_2_IV0:
            return 6
        return 5 if self >= MetadataVersion.IBP_2_8_IV1 else 4

    @property
    def update_metadata_version(self) -> int:
        if self >= MetadataVersion.IBP_3_4_IV0:
            return 8
        return 7 if self >= MetadataVersion.IBP_2_8_IV1 else 6

    @property
    def stop_replica_version(self) -> int:
        return 4 if self >= MetadataVersion.IBP_3_4_IV0 else 3

    @property
    def controlled_shutdown_version(self) -> int:
        return 3

    @property
    def fetch_version(self) -> int:
        """Version of a follower's Fetch; 12 if a partition of the request has no topic id."""
        if self >= MetadataVersion.IBP_3_9_IV0:
            return 17
        if self >= MetadataVersion.IBP_3_7_IV4:
            return 16
        if self >= MetadataVersion.IBP_3_5_IV1:
            return 15
        if self >= MetadataVersion.IBP_3_5_IV0:
            return 14
        return 13 if self >= MetadataVersion.IBP_3_1_IV0 else 12

    @property
    def list_offsets_version(self) -> int:
        if self >= MetadataVersion.IBP_3_9_IV0:
            return 9
        if self >= MetadataVersion.IBP_3_5_IV0:
            return 8
        return 7 if self >= MetadataVersion.IBP_3_0_IV1 else 6

    @property
    def offset_for_leader_epoch_version(self) -> int:
        return 4

    @property
    def write_txn_markers_version(self) -> int:
        return 1

    # Features.

    @property
    def is_topic_id_supported(self) -> bool:
        """The controller gives topic ids to topics without one."""
        return self >= MetadataVersion.IBP_2_8_IV0

    @property
    def is_truncation_on_fetch_supported(self) -> bool:
        """Followers truncate on the diverging epoch in a Fetch response (since 2.7-IV1)."""
        return True

    @property
    def is_alter_partition_supported(self) -> bool:
        """Leaders change the ISR with AlterPartition (since 2.7-IV2)."""
        return True

    @property
    def is_allocate_producer_ids_supported(self) -> bool:
        """Brokers get blocks of producer ids from the controller; before, from the store."""
        return self >= MetadataVersion.IBP_3_0_IV0

    @property
    def is_leader_recovery_supported(self) -> bool:
        """Requests and partition states carry the leader recovery state."""
        return self >= MetadataVersion.IBP_3_2_IV0

    @property
    def feature_node_version(self) -> int:
        """Version of the contents of ``/feature``; 2 has no min version levels."""
        return 2 if self >= MetadataVersion.IBP_3_3_IV0 else 1


OLDEST: Final = MetadataVersion.IBP_2_8_IV0
LATEST: Final = MetadataVersion.IBP_3_9_IV0
