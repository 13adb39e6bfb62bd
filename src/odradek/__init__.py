"""Odradek: Kafka you can pip install.

The clients here block until a call is done; those of ``odradek.aio`` are for asyncio. Names are imported on
first use, so that a broker, or a program that only produces, does not load the rest.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from odradek.compiled_modules import use_compiled_modules
from odradek.version import VERSION as __version__

use_compiled_modules()

if TYPE_CHECKING:
    from odradek.client.admin.cluster import ClusterDescription, Features, VersionRange
    from odradek.client.admin.configs import ConfigChange, ConfigEntry, ConfigResource, ConfigSynonym
    from odradek.client.admin.groups import GroupDescription, GroupListing, GroupMember, MemberToRemove
    from odradek.client.admin.log_dirs import LogDir, Replica, ReplicaInLogDir
    from odradek.client.admin.offsets import OffsetSpec
    from odradek.client.admin.quotas import ClientQuotaEntity, QuotaName
    from odradek.client.admin.reassignments import PartitionReassignment
    from odradek.client.admin.records import ALL_RECORDS
    from odradek.client.admin.scram_credentials import (
        ScramCredentialInfo,
        ScramMechanism,
        UserScramCredentialDeletion,
        UserScramCredentialUpsertion,
    )
    from odradek.client.admin.topics import (
        CreatedTopic,
        NewPartitions,
        NewTopic,
        TopicDescription,
        TopicListing,
    )
    from odradek.client.admin.transactions import (
        ProducerIdAndEpoch,
        ProducerState,
        TransactionDescription,
        TransactionListing,
    )
    from odradek.client.blocking.admin import Admin
    from odradek.client.blocking.consumer import Consumer
    from odradek.client.blocking.producer import Producer
    from odradek.client.consumer.assignors.assignor import Assignment, Assignor, Member, RebalanceProtocol
    from odradek.client.consumer.rebalance_listener import RebalanceListener
    from odradek.client.interceptors import ConsumerInterceptor, ProducerInterceptor, ProducerRecord
    from odradek.client.producer.deliveries import Deliveries
    from odradek.client.producer.partitioner import Partitioner, RoundRobin
    from odradek.client.serdes import Deserializer, Serializer
    from odradek.client.values import (
        GroupMetadata,
        Node,
        OffsetAndMetadata,
        OffsetAndTimestamp,
        PartitionInfo,
        RecordMetadata,
    )
    from odradek.model.acl_enums import AclPermissionType, AclResourceType, PatternType
    from odradek.model.acl_operations import AclOperation
    from odradek.model.client_errors import (
        AuthenticationFailed,
        AuthorizationFailed,
        BufferFull,
        ClientClosed,
        ClientError,
        CommitFailed,
        ConcurrentUse,
        ConnectionFailed,
        FatalProducerError,
        InvalidState,
        LogTruncation,
        NoOffset,
        OffsetOutOfRange,
        PartialFailure,
        ProducerFenced,
        RecordCorrupt,
        RecordTooLarge,
        RequestRefused,
        SerializationFailed,
        TimedOut,
        TransactionAborted,
        UnknownTopic,
        UnresolvedBootstrap,
        UnsupportedVersion,
        WakeupError,
    )
    from odradek.model.errors import ConfigError, ErrorCode
    from odradek.model.ids import TopicPartition
    from odradek.model.protocol_enums import (
        ConfigSource,
        ConfigType,
        ElectionType,
        IsolationLevel,
        ResourceType,
        TimestampType,
    )
    from odradek.records.client.consumer import ConsumerRecord
    from odradek.records.client.producer import Delivery
    from odradek.security.acls.bindings import AccessControlEntry, AclBinding, ResourcePattern
    from odradek.security.acls.filters import (
        AccessControlEntryFilter,
        AclBindingFilter,
        ResourcePatternFilter,
    )
    from odradek.security.principal import KafkaPrincipal
    from odradek.security.tokens.token_information import DelegationToken, TokenInformation

_EXPORTS = {
    "odradek.client.blocking.admin": ("Admin",),
    "odradek.client.blocking.producer": ("Producer",),
    "odradek.client.producer.deliveries": ("Deliveries",),
    "odradek.client.producer.partitioner": ("Partitioner", "RoundRobin"),
    "odradek.client.interceptors": ("ConsumerInterceptor", "ProducerInterceptor", "ProducerRecord"),
    "odradek.client.serdes": ("Deserializer", "Serializer"),
    "odradek.client.blocking.consumer": ("Consumer",),
    "odradek.client.consumer.assignors.assignor": (
        *("Assignment", "Assignor", "Member", "RebalanceProtocol"),
    ),
    "odradek.client.consumer.rebalance_listener": ("RebalanceListener",),
    "odradek.client.admin.cluster": ("ClusterDescription", "Features", "VersionRange"),
    "odradek.client.admin.configs": ("ConfigChange", "ConfigEntry", "ConfigResource", "ConfigSynonym"),
    "odradek.client.admin.groups": ("GroupDescription", "GroupListing", "GroupMember", "MemberToRemove"),
    "odradek.client.admin.log_dirs": ("LogDir", "Replica", "ReplicaInLogDir"),
    "odradek.client.admin.offsets": ("OffsetSpec",),
    "odradek.client.admin.quotas": ("ClientQuotaEntity", "QuotaName"),
    "odradek.client.admin.reassignments": ("PartitionReassignment",),
    "odradek.client.admin.records": ("ALL_RECORDS",),
    "odradek.client.admin.scram_credentials": (
        *("ScramCredentialInfo", "ScramMechanism", "UserScramCredentialDeletion"),
        "UserScramCredentialUpsertion",
    ),
    "odradek.client.admin.topics": (
        *("CreatedTopic", "NewPartitions", "NewTopic", "TopicDescription", "TopicListing"),
    ),
    "odradek.client.admin.transactions": (
        *("ProducerIdAndEpoch", "ProducerState", "TransactionDescription", "TransactionListing"),
    ),
    "odradek.client.values": (
        *("GroupMetadata", "Node", "OffsetAndMetadata", "OffsetAndTimestamp", "PartitionInfo"),
        "RecordMetadata",
    ),
    "odradek.model.client_errors": (
        *("AuthenticationFailed", "AuthorizationFailed", "BufferFull", "ClientClosed", "ClientError"),
        *("CommitFailed", "ConcurrentUse", "ConnectionFailed", "FatalProducerError", "InvalidState"),
        *("LogTruncation", "NoOffset", "OffsetOutOfRange", "ProducerFenced", "RecordCorrupt"),
        "RecordTooLarge",
        *("RequestRefused", "SerializationFailed", "PartialFailure", "TimedOut", "TransactionAborted"),
        *("UnknownTopic", "UnresolvedBootstrap", "UnsupportedVersion", "WakeupError"),
    ),
    "odradek.model.errors": ("ConfigError", "ErrorCode"),
    "odradek.model.ids": ("TopicPartition",),
    "odradek.model.protocol_enums": (
        *("ConfigSource", "ConfigType", "ElectionType", "IsolationLevel", "ResourceType"),
        "TimestampType",
    ),
    "odradek.model.acl_enums": ("AclPermissionType", "AclResourceType", "PatternType"),
    "odradek.model.acl_operations": ("AclOperation",),
    "odradek.security.acls.bindings": ("AccessControlEntry", "AclBinding", "ResourcePattern"),
    "odradek.security.acls.filters": (
        *("AccessControlEntryFilter", "AclBindingFilter", "ResourcePatternFilter"),
    ),
    "odradek.security.principal": ("KafkaPrincipal",),
    "odradek.security.tokens.token_information": ("DelegationToken", "TokenInformation"),
    "odradek.records.client.consumer": ("ConsumerRecord",),
    "odradek.records.client.producer": ("Delivery",),
}
"""Exported names by module. The imports above are for type checkers; a test compares the two."""

_MODULE_OF = {name: module for module, names in _EXPORTS.items() for name in names}

__all__ = [
    "ALL_RECORDS",
    "AccessControlEntry",
    "AccessControlEntryFilter",
    "AclBinding",
    "AclBindingFilter",
    "AclOperation",
    "AclPermissionType",
    "AclResourceType",
    "Admin",
    "Assignment",
    "Assignor",
    "AuthenticationFailed",
    "AuthorizationFailed",
    "BufferFull",
    "ClientClosed",
    "ClientError",
    "ClientQuotaEntity",
    "ClusterDescription",
    "CommitFailed",
    "ConcurrentUse",
    "ConfigChange",
    "ConfigEntry",
    "ConfigError",
    "ConfigResource",
    "ConfigSource",
    "ConfigSynonym",
    "ConfigType",
    "ConnectionFailed",
    "Consumer",
    "ConsumerInterceptor",
    "ConsumerRecord",
    "CreatedTopic",
    "DelegationToken",
    "Deliveries",
    "Delivery",
    "Deserializer",
    "ElectionType",
    "ErrorCode",
    "FatalProducerError",
    "Features",
    "GroupDescription",
    "GroupListing",
    "GroupMember",
    "GroupMetadata",
    "InvalidState",
    "IsolationLevel",
    "KafkaPrincipal",
    "LogDir",
    "LogTruncation",
    "Member",
    "MemberToRemove",
    "NewPartitions",
    "NewTopic",
    "NoOffset",
    "Node",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OffsetOutOfRange",
    "OffsetSpec",
    "PartialFailure",
    "PartitionInfo",
    "PartitionReassignment",
    "Partitioner",
    "PatternType",
    "Producer",
    "ProducerFenced",
    "ProducerIdAndEpoch",
    "ProducerInterceptor",
    "ProducerRecord",
    "ProducerState",
    "QuotaName",
    "RebalanceListener",
    "RebalanceProtocol",
    "RecordCorrupt",
    "RecordMetadata",
    "RecordTooLarge",
    "Replica",
    "ReplicaInLogDir",
    "RequestRefused",
    "ResourcePattern",
    "ResourcePatternFilter",
    "ResourceType",
    "RoundRobin",
    "ScramCredentialInfo",
    "ScramMechanism",
    "SerializationFailed",
    "Serializer",
    "TimedOut",
    "TimestampType",
    "TokenInformation",
    "TopicDescription",
    "TopicListing",
    "TopicPartition",
    "TransactionAborted",
    "TransactionDescription",
    "TransactionListing",
    "UnknownTopic",
    "UnresolvedBootstrap",
    "UnsupportedVersion",
    "UserScramCredentialDeletion",
    "UserScramCredentialUpsertion",
    "VersionRange",
    "WakeupError",
    "__version__",
]


def __getattr__(name: str) -> Any:
    """Import an exported name on first use (PEP 562)."""
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module 'odradek' has no attribute {name!r}")
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
