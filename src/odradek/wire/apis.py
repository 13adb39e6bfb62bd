"""The APIs of the protocol: key, name, first flexible version, and the messages by name.

Message modules are imported on first use, so that a starting broker or a client with one request only pays
for what it uses. The messages of ``ListOffsets`` are in the module ``list_offsets``, and so on.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from odradek.wire.schema import NEVER


@dataclass(frozen=True, slots=True)
class Api:
    """One API: its key, Kafka's name, and the first flexible version."""

    key: int
    name: str
    flexible: int

    @property
    def request(self) -> Any:
        return getattr(self._messages(), f"{self.name}Request")

    @property
    def response(self) -> Any:
        return getattr(self._messages(), f"{self.name}Response")

    @property
    def versions(self) -> range:
        versions: range = self.request.VERSIONS
        return versions

    def _messages(self) -> Any:
        module = re.sub(r"(?<!^)(?=[A-Z])", "_", self.name).lower()
        return import_module(f"odradek.wire.messages.{module}")


APIS: Final = (
    Api(0, "Produce", 9),
    Api(1, "Fetch", 12),
    Api(2, "ListOffsets", 6),
    Api(3, "Metadata", 9),
    Api(4, "LeaderAndIsr", 4),
    Api(5, "StopReplica", 2),
    Api(6, "UpdateMetadata", 6),
    Api(7, "ControlledShutdown", 3),
    Api(8, "OffsetCommit", 8),
    Api(9, "OffsetFetch", 6),
    Api(10, "FindCoordinator", 3),
    Api(11, "JoinGroup", 6),
    Api(12, "Heartbeat", 4),
    Api(13, "LeaveGroup", 4),
    Api(14, "SyncGroup", 4),
    Api(15, "DescribeGroups", 5),
    Api(16, "ListGroups", 3),
    Api(17, "SaslHandshake", NEVER),
    Api(18, "ApiVersions", 3),
    Api(19, "CreateTopics", 5),
    Api(20, "DeleteTopics", 4),
    Api(21, "DeleteRecords", 2),
    Api(22, "InitProducerId", 2),
    Api(23, "OffsetForLeaderEpoch", 4),
    Api(24, "AddPartitionsToTxn", 3),
    Api(25, "AddOffsetsToTxn", 3),
    Api(26, "EndTxn", 3),
    Api(27, "WriteTxnMarkers", 1),
    Api(28, "TxnOffsetCommit", 3),
    Api(29, "DescribeAcls", 2),
    Api(30, "CreateAcls", 2),
    Api(31, "DeleteAcls", 2),
    Api(32, "DescribeConfigs", 4),
    Api(33, "AlterConfigs", 2),
    Api(34, "AlterReplicaLogDirs", 2),
    Api(35, "DescribeLogDirs", 2),
    Api(36, "SaslAuthenticate", 2),
    Api(37, "CreatePartitions", 2),
    Api(38, "CreateDelegationToken", 2),
    Api(39, "RenewDelegationToken", 2),
    Api(40, "ExpireDelegationToken", 2),
    Api(41, "DescribeDelegationToken", 2),
    Api(42, "DeleteGroups", 2),
    Api(43, "ElectLeaders", 2),
    Api(44, "IncrementalAlterConfigs", 1),
    Api(45, "AlterPartitionReassignments", 0),
    Api(46, "ListPartitionReassignments", 0),
    Api(47, "OffsetDelete", NEVER),
    Api(48, "DescribeClientQuotas", 1),
    Api(49, "AlterClientQuotas", 1),
    Api(50, "DescribeUserScramCredentials", 0),
    Api(51, "AlterUserScramCredentials", 0),
    Api(56, "AlterPartition", 0),
    Api(57, "UpdateFeatures", 0),
    Api(60, "DescribeCluster", 0),
    Api(61, "DescribeProducers", 0),
    Api(65, "DescribeTransactions", 0),
    Api(66, "ListTransactions", 0),
    Api(67, "AllocateProducerIds", 0),
)

API_BY_KEY: Final = {api.key: api for api in APIS}
