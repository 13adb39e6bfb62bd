"""A request of every API that requires something of its sender, for resources of given names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from tests.unit.broker.handlers.acl_client import CLUSTER, GROUP, TOPIC, TRANSACTIONAL_ID, acl

from odradek.model.acl_enums import AclResourceType
from odradek.model.acl_operations import AclOperation
from odradek.records.batch import BatchBuilder
from odradek.security.acls.bindings import AclBinding
from odradek.wire.messages import alter_configs as full
from odradek.wire.messages import incremental_alter_configs as incremental
from odradek.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from odradek.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from odradek.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from odradek.wire.messages.alter_partition import AlterPartitionRequest
from odradek.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from odradek.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from odradek.wire.messages.controlled_shutdown import ControlledShutdownRequest
from odradek.wire.messages.create_acls import AclCreation, CreateAclsRequest
from odradek.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from odradek.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from odradek.wire.messages.delete_groups import DeleteGroupsRequest
from odradek.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from odradek.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.wire.messages.describe_acls import DescribeAclsRequest
from odradek.wire.messages.describe_client_quotas import DescribeClientQuotasRequest
from odradek.wire.messages.describe_cluster import DescribeClusterRequest
from odradek.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from odradek.wire.messages.describe_groups import DescribeGroupsRequest
from odradek.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from odradek.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from odradek.wire.messages.describe_transactions import DescribeTransactionsRequest
from odradek.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from odradek.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from odradek.wire.messages.end_txn import EndTxnRequest
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest
from odradek.wire.messages.heartbeat import HeartbeatRequest
from odradek.wire.messages.init_producer_id import InitProducerIdRequest
from odradek.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.wire.messages.leader_and_isr import LeaderAndIsrRequest
from odradek.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from odradek.wire.messages.list_groups import ListGroupsRequest
from odradek.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from odradek.wire.messages.list_transactions import ListTransactionsRequest
from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from odradek.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from odradek.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.wire.messages.stop_replica import StopReplicaRequest
from odradek.wire.messages.sync_group import SyncGroupRequest
from odradek.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from odradek.wire.messages.update_metadata import UpdateMetadataRequest
from odradek.wire.messages.write_txn_markers import WriteTxnMarkersRequest

READ, WRITE, CREATE = AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE
DELETE, ALTER, DESCRIBE = AclOperation.DELETE, AclOperation.ALTER, AclOperation.DESCRIBE
CLUSTER_ACTION, IDEMPOTENT_WRITE = AclOperation.CLUSTER_ACTION, AclOperation.IDEMPOTENT_WRITE
DESCRIBE_CONFIGS, ALTER_CONFIGS = AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS
TOPIC_CONFIGS, BROKER_CONFIGS, LOGGER_CONFIGS = 2, 4, 8

Make = Callable[[int, Sequence[str]], Any]


class Case(NamedTuple):
    """A request in some versions. ``operation`` on each resource is what its entries require.

    ``always`` are other ACLs that the request requires as a whole.
    """

    api: str
    versions: Sequence[int]
    make: Make
    operation: AclOperation
    resource_type: AclResourceType
    always: Sequence[AclBinding] = ()
    label: str = ""

    def __str__(self) -> str:
        return f"{self.api}{self.label and f'-{self.label}'}"


def records(**options: Any) -> bytes:
    builder = BatchBuilder(**options)
    builder.append(1000, None, b"v")
    return bytes(builder.build())


def produce(version: int, names: Sequence[str]) -> ProduceRequest:
    data = [TopicProduceData(name, [PartitionProduceData(0, records())]) for name in names]
    return ProduceRequest(None, -1, 1000, data)


def produce_in_transaction(version: int, names: Sequence[str]) -> ProduceRequest:
    batch = records(transactional=True, producer_id=7, producer_epoch=0, base_sequence=0)
    data = [TopicProduceData("mine", [PartitionProduceData(0, batch)])]
    return ProduceRequest(names[0], -1, 1000, data)


def fetch(version: int, names: Sequence[str]) -> FetchRequest:
    part = FetchPartition(0, fetch_offset=0, partition_max_bytes=1000)
    return FetchRequest(topics=[FetchTopic(topic=name, partitions=[part]) for name in names], min_bytes=0)


def fetch_as_follower(version: int, names: Sequence[str]) -> FetchRequest:
    request = fetch(version, ["mine"])
    request.replica_id = 7
    return request


def list_offsets(version: int, names: Sequence[str]) -> ListOffsetsRequest:
    parts = [ListOffsetsPartition(0, timestamp=-1)]
    return ListOffsetsRequest(-1, 0, [ListOffsetsTopic(name, parts) for name in names])


def metadata(version: int, names: Sequence[str]) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(topics, allow_auto_topic_creation=version < 4)


def offset_commit(version: int, names: Sequence[str]) -> OffsetCommitRequest:
    parts = [OffsetCommitRequestPartition(0, 1)]
    return OffsetCommitRequest("group", topics=[OffsetCommitRequestTopic(name, parts) for name in names])


def offset_commit_of_group(version: int, names: Sequence[str]) -> OffsetCommitRequest:
    request = offset_commit(version, ["mine"])
    request.group_id = names[0]
    return request


def offset_fetch(version: int, names: Sequence[str]) -> OffsetFetchRequest:
    if version < 8:
        return OffsetFetchRequest("group", [OffsetFetchRequestTopic(name, [0]) for name in names])
    topics = [OffsetFetchRequestTopics(name, [0]) for name in names]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup("group", topics=topics)])


def offset_fetch_of_groups(version: int, names: Sequence[str]) -> OffsetFetchRequest:
    topics = [OffsetFetchRequestTopics("mine", [0])]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(name, topics=topics) for name in names])


def offset_fetch_of_group(version: int, names: Sequence[str]) -> OffsetFetchRequest:
    return OffsetFetchRequest(names[0], [OffsetFetchRequestTopic("mine", [0])])


def offset_delete(version: int, names: Sequence[str]) -> OffsetDeleteRequest:
    parts = [OffsetDeleteRequestPartition(0)]
    return OffsetDeleteRequest("group", [OffsetDeleteRequestTopic(name, parts) for name in names])


def offset_delete_of_group(version: int, names: Sequence[str]) -> OffsetDeleteRequest:
    return OffsetDeleteRequest(names[0], [])


def find_coordinators(kind: int) -> Make:
    return lambda version, names: (
        FindCoordinatorRequest("", kind, list(names))
        if version >= 4
        else FindCoordinatorRequest(names[0], kind)
    )


def join_group(version: int, names: Sequence[str]) -> JoinGroupRequest:
    return JoinGroupRequest(
        names[0], 10_000, 10_000, protocol_type="consumer", protocols=[JoinGroupRequestProtocol("range", b"")]
    )


def leave_group(version: int, names: Sequence[str]) -> LeaveGroupRequest:
    if version < 3:
        return LeaveGroupRequest(names[0], "m")
    return LeaveGroupRequest(names[0], members=[MemberIdentity("m")])


def sync_group(version: int, names: Sequence[str]) -> SyncGroupRequest:
    return SyncGroupRequest(names[0], 1, "m", protocol_type="consumer", protocol_name="range")


def create_topics(version: int, names: Sequence[str]) -> CreateTopicsRequest:
    return CreateTopicsRequest([CreatableTopic(f"{name}-new", 1, 1) for name in names], 1000)


def create_topic(version: int, names: Sequence[str]) -> CreateTopicsRequest:
    return CreateTopicsRequest([CreatableTopic(f"new{version}", 1, 1)], 1000)


def delete_topics(version: int, names: Sequence[str]) -> DeleteTopicsRequest:
    if version < 6:
        return DeleteTopicsRequest(topic_names=list(names), timeout_ms=1000)
    return DeleteTopicsRequest([DeleteTopicState(name) for name in names], timeout_ms=1000)


def delete_records(version: int, names: Sequence[str]) -> DeleteRecordsRequest:
    parts = [DeleteRecordsPartition(0, 0)]
    return DeleteRecordsRequest([DeleteRecordsTopic(name, parts) for name in names], 1000)


def create_partitions(version: int, names: Sequence[str]) -> CreatePartitionsRequest:
    return CreatePartitionsRequest([CreatePartitionsTopic(name, 3) for name in names], 1000, True)


def end_offsets(version: int, names: Sequence[str]) -> OffsetForLeaderEpochRequest:
    parts = [OffsetForLeaderPartition(0, leader_epoch=0)]
    return OffsetForLeaderEpochRequest(-1, [OffsetForLeaderTopic(name, parts) for name in names])


def add_partitions(version: int, names: Sequence[str]) -> AddPartitionsToTxnRequest:
    topics = [AddPartitionsToTxnTopic(name, [0]) for name in names]
    if version < 4:
        return AddPartitionsToTxnRequest([], "txn", 7, 0, topics)
    return AddPartitionsToTxnRequest([AddPartitionsToTxnTransaction("txn", 7, 0, False, topics)])


def add_partitions_of_id(version: int, names: Sequence[str]) -> AddPartitionsToTxnRequest:
    topics = [AddPartitionsToTxnTopic("mine", [0])]
    return AddPartitionsToTxnRequest([], names[0], 7, 0, topics)


def txn_offset_commit(version: int, names: Sequence[str]) -> TxnOffsetCommitRequest:
    parts = [TxnOffsetCommitRequestPartition(0, 1)]
    topics = [TxnOffsetCommitRequestTopic(name, parts) for name in names]
    return TxnOffsetCommitRequest("txn", "group", 7, 0, topics=topics)


def txn_offset_commit_of(field: str) -> Make:
    def make(version: int, names: Sequence[str]) -> TxnOffsetCommitRequest:
        request = txn_offset_commit(version, ["mine"])
        setattr(request, field, names[0])
        return request

    return make


def describe_configs(kind: int) -> Make:
    return lambda version, names: DescribeConfigsRequest(
        [DescribeConfigsResource(kind, name if kind == TOPIC_CONFIGS else "0") for name in names]
    )


def alter_configs(kind: int) -> Make:
    return lambda version, names: full.AlterConfigsRequest(
        [full.AlterConfigsResource(kind, name if kind == TOPIC_CONFIGS else "0", []) for name in names], True
    )


def incremental_alter_configs(kind: int) -> Make:
    return lambda version, names: incremental.IncrementalAlterConfigsRequest(
        [
            incremental.AlterConfigsResource(kind, name if kind == TOPIC_CONFIGS else "0", [])
            for name in names
        ],
        True,
    )


def log_dirs(version: int, names: Sequence[str]) -> AlterReplicaLogDirsRequest:
    return AlterReplicaLogDirsRequest([AlterReplicaLogDir("/data", [AlterReplicaLogDirTopic("mine", [0])])])


def create_acls(version: int, names: Sequence[str]) -> CreateAclsRequest:
    return CreateAclsRequest([AclCreation(2, "x", 3, "User:bob", "*", 3, 3)])


def describe_producers(version: int, names: Sequence[str]) -> DescribeProducersRequest:
    return DescribeProducersRequest([TopicRequest(name, [0]) for name in names])


def of_group(cls: Any, *fields: Any) -> Make:
    return lambda version, names: cls(names[0], *fields)


def constant(request: Any) -> Make:
    return lambda version, names: request


GROUP_READ = acl(READ, GROUP, "group")
GROUP_DESCRIBE = acl(DESCRIBE, GROUP, "group")
TXN_WRITE = acl(WRITE, TRANSACTIONAL_ID, "txn")
MINE_READ, MINE_WRITE = acl(READ, TOPIC, "mine"), acl(WRITE, TOPIC, "mine")
ALL = range

TOPIC_CASES: Final = [
    Case("Produce", ALL(3, 12), produce, WRITE, TOPIC),
    Case("Fetch", ALL(4, 13), fetch, READ, TOPIC),
    Case("ListOffsets", ALL(10), list_offsets, DESCRIBE, TOPIC),
    Case("Metadata", ALL(4, 13), metadata, DESCRIBE, TOPIC),
    Case("OffsetCommit", ALL(10), offset_commit, READ, TOPIC, [GROUP_READ]),
    Case("OffsetFetch", ALL(10), offset_fetch, DESCRIBE, TOPIC, [GROUP_DESCRIBE]),
    Case("CreateTopics", ALL(8), create_topics, CREATE, TOPIC),
    Case("DeleteTopics", ALL(7), delete_topics, DELETE, TOPIC),
    Case("DeleteRecords", ALL(3), delete_records, DELETE, TOPIC),
    Case("OffsetForLeaderEpoch", ALL(5), end_offsets, DESCRIBE, TOPIC),
    Case("AddPartitionsToTxn", ALL(4), add_partitions, WRITE, TOPIC, [TXN_WRITE]),
    Case("TxnOffsetCommit", ALL(5), txn_offset_commit, READ, TOPIC, [TXN_WRITE, GROUP_READ]),
    Case("DescribeConfigs", ALL(5), describe_configs(TOPIC_CONFIGS), DESCRIBE_CONFIGS, TOPIC),
    Case("AlterConfigs", ALL(3), alter_configs(TOPIC_CONFIGS), ALTER_CONFIGS, TOPIC),
    Case("IncrementalAlterConfigs", ALL(2), incremental_alter_configs(TOPIC_CONFIGS), ALTER_CONFIGS, TOPIC),
    Case("CreatePartitions", ALL(4), create_partitions, ALTER, TOPIC),
    Case("OffsetDelete", ALL(1), offset_delete, READ, TOPIC, [acl(DELETE, GROUP, "group")]),
    Case("DescribeProducers", ALL(1), describe_producers, READ, TOPIC),
]
"""Requests for several topics."""

NAMED_CASES: Final = [
    Case(
        "Produce", ALL(3, 12), produce_in_transaction, WRITE, TRANSACTIONAL_ID, [MINE_WRITE], "transactional"
    ),
    Case("OffsetCommit", ALL(10), offset_commit_of_group, READ, GROUP, [MINE_READ], "group"),
    Case("OffsetFetch", ALL(8, 10), offset_fetch_of_groups, DESCRIBE, GROUP, [MINE_READ], "groups"),
    Case("OffsetFetch", ALL(8), offset_fetch_of_group, DESCRIBE, GROUP, [MINE_READ], "group"),
    Case("FindCoordinator", ALL(7), find_coordinators(0), DESCRIBE, GROUP, label="group"),
    Case("FindCoordinator", ALL(1, 7), find_coordinators(1), DESCRIBE, TRANSACTIONAL_ID, label="transaction"),
    Case("JoinGroup", ALL(10), join_group, READ, GROUP),
    Case("Heartbeat", ALL(5), of_group(HeartbeatRequest, 1, "m"), READ, GROUP),
    Case("LeaveGroup", ALL(6), leave_group, READ, GROUP),
    Case("SyncGroup", ALL(6), sync_group, READ, GROUP),
    Case("DescribeGroups", ALL(6), lambda v, names: DescribeGroupsRequest(list(names)), DESCRIBE, GROUP),
    Case("DeleteGroups", ALL(3), lambda v, names: DeleteGroupsRequest(list(names)), DELETE, GROUP),
    Case("OffsetDelete", ALL(1), offset_delete_of_group, DELETE, GROUP, label="group"),
    Case("InitProducerId", ALL(6), of_group(InitProducerIdRequest, 1000), WRITE, TRANSACTIONAL_ID),
    Case("AddPartitionsToTxn", ALL(4), add_partitions_of_id, WRITE, TRANSACTIONAL_ID, [MINE_WRITE], "id"),
    Case(
        "AddOffsetsToTxn",
        ALL(5),
        of_group(AddOffsetsToTxnRequest, 7, 0, "group"),
        WRITE,
        TRANSACTIONAL_ID,
        [GROUP_READ],
    ),
    Case(
        "AddOffsetsToTxn",
        ALL(5),
        lambda v, names: AddOffsetsToTxnRequest("txn", 7, 0, names[0]),
        READ,
        GROUP,
        [TXN_WRITE],
        "group",
    ),
    Case("EndTxn", ALL(5), of_group(EndTxnRequest, 7, 0, True), WRITE, TRANSACTIONAL_ID),
    Case(
        "TxnOffsetCommit",
        ALL(5),
        txn_offset_commit_of("transactional_id"),
        WRITE,
        TRANSACTIONAL_ID,
        [GROUP_READ, MINE_READ],
        "id",
    ),
    Case(
        "TxnOffsetCommit",
        ALL(5),
        txn_offset_commit_of("group_id"),
        READ,
        GROUP,
        [TXN_WRITE, MINE_READ],
        "group",
    ),
    Case(
        "DescribeTransactions",
        ALL(1),
        lambda v, names: DescribeTransactionsRequest(list(names)),
        DESCRIBE,
        TRANSACTIONAL_ID,
    ),
]
"""Requests for groups and transactional ids; some have one only."""

CLUSTER_CASES: Final = [
    Case("Fetch", ALL(4, 13), fetch_as_follower, CLUSTER_ACTION, CLUSTER, label="follower"),
    Case(
        "LeaderAndIsr", ALL(8), constant(LeaderAndIsrRequest(0, controller_epoch=-9)), CLUSTER_ACTION, CLUSTER
    ),
    Case(
        "StopReplica", ALL(5), constant(StopReplicaRequest(0, controller_epoch=-9)), CLUSTER_ACTION, CLUSTER
    ),
    Case(
        "UpdateMetadata",
        ALL(9),
        constant(UpdateMetadataRequest(0, controller_epoch=-9)),
        CLUSTER_ACTION,
        CLUSTER,
    ),
    Case("ControlledShutdown", ALL(4), constant(ControlledShutdownRequest(99)), CLUSTER_ACTION, CLUSTER),
    Case("AlterPartition", ALL(4), constant(AlterPartitionRequest(99, 1)), CLUSTER_ACTION, CLUSTER),
    Case("AllocateProducerIds", ALL(1), constant(AllocateProducerIdsRequest(99, 1)), CLUSTER_ACTION, CLUSTER),
    Case(
        "AddPartitionsToTxn",
        ALL(4, 6),
        lambda v, names: add_partitions(v, ["mine"]),
        CLUSTER_ACTION,
        CLUSTER,
        label="brokers",
    ),
    Case("FindCoordinator", ALL(6, 7), find_coordinators(2), CLUSTER_ACTION, CLUSTER, label="share"),
    Case("WriteTxnMarkers", ALL(2), constant(WriteTxnMarkersRequest()), CLUSTER_ACTION, CLUSTER),
    Case("WriteTxnMarkers", ALL(2), constant(WriteTxnMarkersRequest()), ALTER, CLUSTER, label="alter"),
    Case("OffsetForLeaderEpoch", ALL(5), lambda v, n: end_offsets(v, ["mine"]), CLUSTER_ACTION, CLUSTER),
    Case("CreateTopics", ALL(8), create_topic, CREATE, CLUSTER, label="cluster"),
    Case("InitProducerId", ALL(6), constant(InitProducerIdRequest(None)), IDEMPOTENT_WRITE, CLUSTER),
    Case("InitProducerId", ALL(6), constant(InitProducerIdRequest(None)), WRITE, TOPIC, label="any-topic"),
    Case(
        "DescribeAcls", ALL(4), constant(DescribeAclsRequest(1, None, 3, None, None, 1, 1)), DESCRIBE, CLUSTER
    ),
    Case("CreateAcls", ALL(4), create_acls, ALTER, CLUSTER),
    Case(
        "DeleteAcls",
        ALL(4),
        constant(DeleteAclsRequest([DeleteAclsFilter(2, "y", 3, None, None, 1, 1)])),
        ALTER,
        CLUSTER,
    ),
    Case(
        "DescribeConfigs", ALL(5), describe_configs(BROKER_CONFIGS), DESCRIBE_CONFIGS, CLUSTER, label="broker"
    ),
    Case(
        "DescribeConfigs", ALL(5), describe_configs(LOGGER_CONFIGS), DESCRIBE_CONFIGS, CLUSTER, label="logger"
    ),
    Case("AlterConfigs", ALL(3), alter_configs(BROKER_CONFIGS), ALTER_CONFIGS, CLUSTER, label="broker"),
    Case(
        "IncrementalAlterConfigs",
        ALL(2),
        incremental_alter_configs(BROKER_CONFIGS),
        ALTER_CONFIGS,
        CLUSTER,
        label="broker",
    ),
    Case(
        "IncrementalAlterConfigs",
        ALL(2),
        incremental_alter_configs(LOGGER_CONFIGS),
        ALTER_CONFIGS,
        CLUSTER,
        label="logger",
    ),
    Case("AlterReplicaLogDirs", ALL(3), log_dirs, ALTER, CLUSTER),
    Case("DescribeLogDirs", ALL(3, 5), constant(DescribeLogDirsRequest(None)), DESCRIBE, CLUSTER),
    Case(
        "ElectLeaders",
        ALL(1, 3),
        constant(ElectLeadersRequest(0, [TopicPartitions("mine", [0])], 1000)),
        ALTER,
        CLUSTER,
    ),
    Case(
        "AlterPartitionReassignments", ALL(1), constant(AlterPartitionReassignmentsRequest()), ALTER, CLUSTER
    ),
    Case(
        "ListPartitionReassignments", ALL(1), constant(ListPartitionReassignmentsRequest()), DESCRIBE, CLUSTER
    ),
    Case(
        "DescribeClientQuotas", ALL(2), constant(DescribeClientQuotasRequest([])), DESCRIBE_CONFIGS, CLUSTER
    ),
    Case(
        "DescribeUserScramCredentials",
        ALL(1),
        constant(DescribeUserScramCredentialsRequest(None)),
        DESCRIBE,
        CLUSTER,
    ),
]
"""Requests that are allowed or denied as a whole."""


def metadata_with_operations(version: int, names: Sequence[str]) -> MetadataRequest:
    topics = [MetadataRequestTopic(name="mine")]
    return MetadataRequest(topics, False, include_cluster_authorized_operations=True)


def metadata_creating(version: int, names: Sequence[str]) -> MetadataRequest:
    return MetadataRequest([MetadataRequestTopic(name="unknown!")], True)


OTHER_CASES: Final = [
    Case("Metadata", [10], metadata_with_operations, DESCRIBE, CLUSTER, label="operations"),
    Case("Metadata", [10], metadata_creating, CREATE, TOPIC, label="creating"),
    Case(
        "DescribeCluster", [1], constant(DescribeClusterRequest(True)), DESCRIBE, CLUSTER, label="operations"
    ),
    Case("ListGroups", [5], constant(ListGroupsRequest()), DESCRIBE, GROUP),
    Case("ListTransactions", [1], constant(ListTransactionsRequest()), DESCRIBE, TRANSACTIONAL_ID),
]
"""Requests whose responses are filtered, or that have more requirements."""
