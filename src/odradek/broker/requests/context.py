"""Components of the broker that handlers may use.

Handlers reach them by these names only, so that a component can later live in another process.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.broker.acl_manager import AclManager
    from odradek.broker.audit import AuditLog
    from odradek.broker.client_configs import ClientConfigs
    from odradek.broker.coordinators.group_coordinator import GroupCoordinator
    from odradek.broker.coordinators.transaction_coordinator import TransactionCoordinator
    from odradek.broker.coordinators.transaction_marker_writer import TransactionMarkerWriter
    from odradek.broker.coordinators.transaction_verification import AddPartitionsToTxnManager
    from odradek.broker.inter_broker.broker_requests import InterBrokerRequests
    from odradek.broker.inter_broker.finalized_features import FinalizedFeatureListener
    from odradek.broker.membership import Membership
    from odradek.broker.network.socket_server import SocketServer
    from odradek.broker.security.delegation_tokens import DelegationTokens
    from odradek.broker.topics.admin import AdminManager
    from odradek.broker.topics.metadata_responses import AllTopicsResponseCache
    from odradek.cluster.metadata_cache import MetadataCache
    from odradek.config.dynamic.broker_config import DynamicBrokerConfig
    from odradek.log.log_manager import LogManager
    from odradek.ports.clock import Clock
    from odradek.ports.workers import Workers
    from odradek.replication.fetch_sessions.fetch_session_cache import FetchSessionCache
    from odradek.replication.replica_manager import ReplicaManager
    from odradek.security.acls.authorizer import AclAuthorizer
    from odradek.store.producer_id_manager import ProducerIdManager
    from odradek.telemetry.rate_limited_events import RateLimitedEvents


@dataclass(slots=True)
class BrokerContext:
    broker_id: int
    broker_epoch: Callable[[], int]
    cluster_id: str
    clock: Clock
    config: DynamicBrokerConfig
    metadata_cache: MetadataCache
    all_topics_cache: AllTopicsResponseCache
    replica_manager: ReplicaManager
    log_manager: LogManager
    admin_manager: AdminManager
    fetch_session_cache: FetchSessionCache
    producer_id_manager: ProducerIdManager
    group_coordinator: GroupCoordinator
    transaction_coordinator: TransactionCoordinator
    marker_writer: TransactionMarkerWriter
    transaction_verification: AddPartitionsToTxnManager
    membership: Membership
    requests: InterBrokerRequests
    finalized_features: FinalizedFeatureListener
    workers: Workers
    socket_server: SocketServer
    acl_manager: AclManager | None
    """None without an authorizer: everything is allowed."""
    delegation_tokens: DelegationTokens | None
    """None without ``delegation.token.secret.key``: they are disabled."""
    rejected_batches: RateLimitedEvents
    """Log of rejected batches, rate-limited."""
    client_configs: ClientConfigs
    """Quotas and SCRAM credentials."""
    audit: AuditLog
    """Log of denied operations and administrative changes, rate-limited."""

    @property
    def authorizer(self) -> AclAuthorizer | None:
        return None if self.acl_manager is None else self.acl_manager.authorizer
