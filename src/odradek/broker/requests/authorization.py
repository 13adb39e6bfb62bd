"""Requirements that the sender of each API must meet, and the errors of denials.

The table is what ``docs/security.md`` shows, and what tests compare with the decisions that handlers ask for.
Checks are made for each entry of a request, before it is looked up: whether a resource exists is not told to
a sender who may not describe it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from odradek.model.acl_enums import AclResourceType
from odradek.model.acl_operations import (
    OPERATIONS_OF_CLUSTER,
    OPERATIONS_OF_GROUP,
    OPERATIONS_OF_TOPIC,
    AclOperation,
    bit_field,
)
from odradek.model.errors import BrokerError, ErrorCode

NO_NAMES: Final[frozenset[str]] = frozenset()

ERROR_OF_TYPE: Final[Mapping[AclResourceType, ErrorCode]] = {
    AclResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    AclResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    AclResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    AclResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    AclResourceType.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    AclResourceType.USER: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}

OPERATIONS: Final[Mapping[AclResourceType, tuple[AclOperation, ...]]] = {
    AclResourceType.TOPIC: OPERATIONS_OF_TOPIC,
    AclResourceType.GROUP: OPERATIONS_OF_GROUP,
    AclResourceType.CLUSTER: OPERATIONS_OF_CLUSTER,
}
"""Operations that responses list as authorized."""
ALL_OPERATIONS: Final = {
    resource_type: bit_field(operations) for resource_type, operations in OPERATIONS.items()
}


class Requirement(NamedTuple):
    """An operation that an API may require. ``note`` says when, or of what."""

    operation: AclOperation
    resource_type: AclResourceType
    note: str = ""


def denial(operation: AclOperation, resource_type: AclResourceType) -> BrokerError:
    """Return the error for a sender who may not do this."""
    return BrokerError(
        ERROR_OF_TYPE[resource_type],
        f"{operation.name} on {resource_type.name} is required, and not allowed by any ACL",
    )


_READ: Final = AclOperation.READ
_WRITE: Final = AclOperation.WRITE
_CREATE: Final = AclOperation.CREATE
_DELETE: Final = AclOperation.DELETE
_ALTER: Final = AclOperation.ALTER
_DESCRIBE: Final = AclOperation.DESCRIBE
_CLUSTER_ACTION: Final = AclOperation.CLUSTER_ACTION
_DESCRIBE_CONFIGS: Final = AclOperation.DESCRIBE_CONFIGS
_ALTER_CONFIGS: Final = AclOperation.ALTER_CONFIGS
_IDEMPOTENT_WRITE: Final = AclOperation.IDEMPOTENT_WRITE

_TOPIC: Final = AclResourceType.TOPIC
_GROUP: Final = AclResourceType.GROUP
_CLUSTER: Final = AclResourceType.CLUSTER
_TRANSACTIONAL_ID: Final = AclResourceType.TRANSACTIONAL_ID

_FOR_BROKERS: Final = (Requirement(_CLUSTER_ACTION, _CLUSTER),)
_GROUP_MEMBER: Final = (Requirement(_READ, _GROUP),)
_OPERATIONS: Final = "only for the authorized operations, if they are asked for"

REQUIREMENTS: Final[Mapping[str, tuple[Requirement, ...]]] = {
    "Produce": (
        Requirement(_WRITE, _TOPIC, "each topic"),
        Requirement(_WRITE, _TRANSACTIONAL_ID, "if there are transactional records; else the request fails"),
    ),
    "Fetch": (
        Requirement(_READ, _TOPIC, "each topic, for consumers"),
        Requirement(_CLUSTER_ACTION, _CLUSTER, "for followers, instead"),
    ),
    "ListOffsets": (Requirement(_DESCRIBE, _TOPIC, "each topic"),),
    "Metadata": (
        Requirement(_DESCRIBE, _TOPIC, "each topic; of all topics, only the allowed ones are listed"),
        Requirement(_CREATE, _CLUSTER, "to create missing topics"),
        Requirement(_CREATE, _TOPIC, "each missing topic, unless allowed on the cluster"),
        Requirement(_DESCRIBE, _CLUSTER, _OPERATIONS),
    ),
    "LeaderAndIsr": _FOR_BROKERS,
    "StopReplica": _FOR_BROKERS,
    "UpdateMetadata": _FOR_BROKERS,
    "ControlledShutdown": _FOR_BROKERS,
    "OffsetCommit": (
        Requirement(_READ, _GROUP),
        Requirement(_READ, _TOPIC, "each topic"),
    ),
    "OffsetFetch": (
        Requirement(_DESCRIBE, _GROUP, "each group"),
        Requirement(_DESCRIBE, _TOPIC, "each topic; of all topics, only the allowed ones are returned"),
    ),
    "FindCoordinator": (
        Requirement(_DESCRIBE, _GROUP, "each group"),
        Requirement(_DESCRIBE, _TRANSACTIONAL_ID, "each transactional id"),
        Requirement(_CLUSTER_ACTION, _CLUSTER, "for share groups"),
    ),
    "JoinGroup": _GROUP_MEMBER,
    "Heartbeat": _GROUP_MEMBER,
    "LeaveGroup": _GROUP_MEMBER,
    "SyncGroup": _GROUP_MEMBER,
    "DescribeGroups": (Requirement(_DESCRIBE, _GROUP, "each group"),),
    "ListGroups": (
        Requirement(_DESCRIBE, _CLUSTER, "to list all groups"),
        Requirement(_DESCRIBE, _GROUP, "otherwise: only the allowed ones are listed"),
    ),
    "SaslHandshake": (),
    "ApiVersions": (),
    "SaslAuthenticate": (),
    "CreateTopics": (
        Requirement(_CREATE, _CLUSTER),
        Requirement(_CREATE, _TOPIC, "each topic, unless allowed on the cluster"),
        Requirement(_DESCRIBE_CONFIGS, _TOPIC, "each topic, to return its configs and id"),
    ),
    "DeleteTopics": (
        Requirement(_DELETE, _TOPIC, "each topic"),
        Requirement(_DESCRIBE, _TOPIC, "to return the name of a topic that is given by its id"),
    ),
    "DeleteRecords": (Requirement(_DELETE, _TOPIC, "each topic"),),
    "InitProducerId": (
        Requirement(_WRITE, _TRANSACTIONAL_ID, "with a transactional id"),
        Requirement(_IDEMPOTENT_WRITE, _CLUSTER, "without"),
        Requirement(_WRITE, _TOPIC, "without, instead: on any topic"),
    ),
    "OffsetForLeaderEpoch": (
        Requirement(_CLUSTER_ACTION, _CLUSTER),
        Requirement(_DESCRIBE, _TOPIC, "each topic, unless allowed on the cluster"),
    ),
    "AddPartitionsToTxn": (
        Requirement(_WRITE, _TRANSACTIONAL_ID, "up to version 3"),
        Requirement(_WRITE, _TOPIC, "up to version 3: each topic; if one is denied, none is added"),
        Requirement(_CLUSTER_ACTION, _CLUSTER, "from version 4 on, which brokers send"),
    ),
    "AddOffsetsToTxn": (
        Requirement(_WRITE, _TRANSACTIONAL_ID),
        Requirement(_READ, _GROUP),
    ),
    "EndTxn": (Requirement(_WRITE, _TRANSACTIONAL_ID),),
    "WriteTxnMarkers": (
        Requirement(_ALTER, _CLUSTER),
        Requirement(_CLUSTER_ACTION, _CLUSTER, "unless Alter is allowed"),
    ),
    "TxnOffsetCommit": (
        Requirement(_WRITE, _TRANSACTIONAL_ID),
        Requirement(_READ, _GROUP),
        Requirement(_READ, _TOPIC, "each topic"),
    ),
    "DescribeAcls": (Requirement(_DESCRIBE, _CLUSTER),),
    "CreateAcls": (Requirement(_ALTER, _CLUSTER),),
    "DeleteAcls": (Requirement(_ALTER, _CLUSTER),),
    "DescribeConfigs": (
        Requirement(_DESCRIBE_CONFIGS, _TOPIC, "each topic"),
        Requirement(_DESCRIBE_CONFIGS, _CLUSTER, "for brokers and loggers"),
    ),
    "AlterConfigs": (
        Requirement(_ALTER_CONFIGS, _TOPIC, "each topic"),
        Requirement(_ALTER_CONFIGS, _CLUSTER, "for brokers"),
    ),
    "AlterReplicaLogDirs": (Requirement(_ALTER, _CLUSTER),),
    "DescribeLogDirs": (Requirement(_DESCRIBE, _CLUSTER),),
    "CreatePartitions": (Requirement(_ALTER, _TOPIC, "each topic"),),
    "CreateDelegationToken": (
        Requirement(AclOperation.CREATE_TOKENS, AclResourceType.USER, "for another owner"),
    ),
    "RenewDelegationToken": (),
    "ExpireDelegationToken": (),
    "DescribeDelegationToken": (
        Requirement(_DESCRIBE, AclResourceType.DELEGATION_TOKEN, "tokens of others"),
        Requirement(AclOperation.DESCRIBE_TOKENS, AclResourceType.USER, "or all tokens of an owner"),
    ),
    "DeleteGroups": (Requirement(_DELETE, _GROUP, "each group"),),
    "ElectLeaders": (Requirement(_ALTER, _CLUSTER),),
    "IncrementalAlterConfigs": (
        Requirement(_ALTER_CONFIGS, _TOPIC, "each topic"),
        Requirement(_ALTER_CONFIGS, _CLUSTER, "for brokers and loggers"),
    ),
    "AlterPartitionReassignments": (Requirement(_ALTER, _CLUSTER),),
    "ListPartitionReassignments": (Requirement(_DESCRIBE, _CLUSTER),),
    "OffsetDelete": (
        Requirement(_DELETE, _GROUP),
        Requirement(_READ, _TOPIC, "each topic"),
    ),
    "DescribeClientQuotas": (Requirement(_DESCRIBE_CONFIGS, _CLUSTER),),
    "AlterClientQuotas": (Requirement(_ALTER_CONFIGS, _CLUSTER),),
    "DescribeUserScramCredentials": (Requirement(_DESCRIBE, _CLUSTER),),
    "AlterUserScramCredentials": (Requirement(_ALTER, _CLUSTER),),
    "AlterPartition": _FOR_BROKERS,
    "UpdateFeatures": (Requirement(_ALTER, _CLUSTER),),
    "DescribeCluster": (Requirement(_DESCRIBE, _CLUSTER, _OPERATIONS),),
    "DescribeProducers": (Requirement(_READ, _TOPIC, "each topic"),),
    "DescribeTransactions": (
        Requirement(_DESCRIBE, _TRANSACTIONAL_ID, "each transactional id"),
        Requirement(_DESCRIBE, _TOPIC, "each topic of the transaction: only the allowed ones are returned"),
    ),
    "ListTransactions": (
        Requirement(_DESCRIBE, _TRANSACTIONAL_ID, "each transactional id: only the allowed ones are listed"),
    ),
    "AllocateProducerIds": _FOR_BROKERS,
}
"""Requirements by API."""
