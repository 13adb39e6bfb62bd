"""The APIs of the protocol: key, name, request and response. Versions are those of the request's table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, cast

from odradek.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from odradek.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from odradek.wire.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from odradek.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from odradek.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from odradek.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from odradek.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
)
from odradek.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from odradek.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.wire.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from odradek.wire.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from odradek.wire.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from odradek.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from odradek.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from odradek.wire.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from odradek.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from odradek.wire.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from odradek.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from odradek.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from odradek.wire.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from odradek.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from odradek.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from odradek.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from odradek.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from odradek.wire.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from odradek.wire.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse
from odradek.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from odradek.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from odradek.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from odradek.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from odradek.wire.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from odradek.wire.messages.fetch import FetchRequest, FetchResponse
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from odradek.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from odradek.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from odradek.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from odradek.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from odradek.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from odradek.wire.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from odradek.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from odradek.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from odradek.wire.messages.metadata import MetadataRequest, MetadataResponse
from odradek.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from odradek.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from odradek.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from odradek.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from odradek.wire.messages.produce import ProduceRequest, ProduceResponse
from odradek.wire.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from odradek.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from odradek.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from odradek.wire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from odradek.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from odradek.wire.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from odradek.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from odradek.wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from odradek.wire.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from odradek.wire.schema import Table


@dataclass(frozen=True, slots=True)
class Api:
    """One API; ``name`` is Kafka's."""

    key: int
    name: str
    request: type
    response: type

    @property
    def versions(self) -> range:
        return cast("type[Table]", self.request).VERSIONS

    @property
    def flexible(self) -> int:
        """The first flexible version."""
        return cast("type[Table]", self.request).FLEXIBLE


APIS: Final = (
    Api(0, "Produce", ProduceRequest, ProduceResponse),
    Api(1, "Fetch", FetchRequest, FetchResponse),
    Api(2, "ListOffsets", ListOffsetsRequest, ListOffsetsResponse),
    Api(3, "Metadata", MetadataRequest, MetadataResponse),
    Api(4, "LeaderAndIsr", LeaderAndIsrRequest, LeaderAndIsrResponse),
    Api(5, "StopReplica", StopReplicaRequest, StopReplicaResponse),
    Api(6, "UpdateMetadata", UpdateMetadataRequest, UpdateMetadataResponse),
    Api(7, "ControlledShutdown", ControlledShutdownRequest, ControlledShutdownResponse),
    Api(8, "OffsetCommit", OffsetCommitRequest, OffsetCommitResponse),
    Api(9, "OffsetFetch", OffsetFetchRequest, OffsetFetchResponse),
    Api(10, "FindCoordinator", FindCoordinatorRequest, FindCoordinatorResponse),
    Api(11, "JoinGroup", JoinGroupRequest, JoinGroupResponse),
    Api(12, "Heartbeat", HeartbeatRequest, HeartbeatResponse),
    Api(13, "LeaveGroup", LeaveGroupRequest, LeaveGroupResponse),
    Api(14, "SyncGroup", SyncGroupRequest, SyncGroupResponse),
    Api(15, "DescribeGroups", DescribeGroupsRequest, DescribeGroupsResponse),
    Api(16, "ListGroups", ListGroupsRequest, ListGroupsResponse),
    Api(17, "SaslHandshake", SaslHandshakeRequest, SaslHandshakeResponse),
    Api(18, "ApiVersions", ApiVersionsRequest, ApiVersionsResponse),
    Api(19, "CreateTopics", CreateTopicsRequest, CreateTopicsResponse),
    Api(20, "DeleteTopics", DeleteTopicsRequest, DeleteTopicsResponse),
    Api(21, "DeleteRecords", DeleteRecordsRequest, DeleteRecordsResponse),
    Api(22, "InitProducerId", InitProducerIdRequest, InitProducerIdResponse),
    Api(23, "OffsetForLeaderEpoch", OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse),
    Api(24, "AddPartitionsToTxn", AddPartitionsToTxnRequest, AddPartitionsToTxnResponse),
    Api(25, "AddOffsetsToTxn", AddOffsetsToTxnRequest, AddOffsetsToTxnResponse),
    Api(26, "EndTxn", EndTxnRequest, EndTxnResponse),
    Api(27, "WriteTxnMarkers", WriteTxnMarkersRequest, WriteTxnMarkersResponse),
    Api(28, "TxnOffsetCommit", TxnOffsetCommitRequest, TxnOffsetCommitResponse),
    Api(29, "DescribeAcls", DescribeAclsRequest, DescribeAclsResponse),
    Api(30, "CreateAcls", CreateAclsRequest, CreateAclsResponse),
    Api(31, "DeleteAcls", DeleteAclsRequest, DeleteAclsResponse),
    Api(32, "DescribeConfigs", DescribeConfigsRequest, DescribeConfigsResponse),
    Api(33, "AlterConfigs", AlterConfigsRequest, AlterConfigsResponse),
    Api(34, "AlterReplicaLogDirs", AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse),
    Api(35, "DescribeLogDirs", DescribeLogDirsRequest, DescribeLogDirsResponse),
    Api(36, "SaslAuthenticate", SaslAuthenticateRequest, SaslAuthenticateResponse),
    Api(37, "CreatePartitions", CreatePartitionsRequest, CreatePartitionsResponse),
    Api(38, "CreateDelegationToken", CreateDelegationTokenRequest, CreateDelegationTokenResponse),
    Api(39, "RenewDelegationToken", RenewDelegationTokenRequest, RenewDelegationTokenResponse),
    Api(40, "ExpireDelegationToken", ExpireDelegationTokenRequest, ExpireDelegationTokenResponse),
    Api(41, "DescribeDelegationToken", DescribeDelegationTokenRequest, DescribeDelegationTokenResponse),
    Api(42, "DeleteGroups", DeleteGroupsRequest, DeleteGroupsResponse),
    Api(43, "ElectLeaders", ElectLeadersRequest, ElectLeadersResponse),
    Api(44, "IncrementalAlterConfigs", IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse),
    Api(
        45,
        "AlterPartitionReassignments",
        AlterPartitionReassignmentsRequest,
        AlterPartitionReassignmentsResponse,
    ),
    Api(
        46,
        "ListPartitionReassignments",
        ListPartitionReassignmentsRequest,
        ListPartitionReassignmentsResponse,
    ),
    Api(47, "OffsetDelete", OffsetDeleteRequest, OffsetDeleteResponse),
    Api(48, "DescribeClientQuotas", DescribeClientQuotasRequest, DescribeClientQuotasResponse),
    Api(49, "AlterClientQuotas", AlterClientQuotasRequest, AlterClientQuotasResponse),
    Api(
        50,
        "DescribeUserScramCredentials",
        DescribeUserScramCredentialsRequest,
        DescribeUserScramCredentialsResponse,
    ),
    Api(51, "AlterUserScramCredentials", AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse),
    Api(56, "AlterPartition", AlterPartitionRequest, AlterPartitionResponse),
    Api(57, "UpdateFeatures", UpdateFeaturesRequest, UpdateFeaturesResponse),
    Api(60, "DescribeCluster", DescribeClusterRequest, DescribeClusterResponse),
    Api(61, "DescribeProducers", DescribeProducersRequest, DescribeProducersResponse),
    Api(65, "DescribeTransactions", DescribeTransactionsRequest, DescribeTransactionsResponse),
    Api(66, "ListTransactions", ListTransactionsRequest, ListTransactionsResponse),
)

API_BY_KEY: Final = {api.key: api for api in APIS}
