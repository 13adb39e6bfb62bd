"""What a handler may reach: the broker's parts, and nothing else of the environment.

Handlers see these through narrow names, so that a part can later live in another process.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.broker.coordinators.group_coordinator import Groups
    from odradek.broker.coordinators.transaction_coordinator import Transactions
    from odradek.broker.coordinators.transaction_marker_writer import Markers
    from odradek.broker.coordinators.transaction_verification import Verification
    from odradek.broker.network.socket_server import Listening
    from odradek.broker.topics.admin import Topics
    from odradek.broker.topics.metadata_responses import AllTopicsAnswers
    from odradek.cluster.metadata_cache import MetadataCache
    from odradek.config.dynamic.broker_config import DynamicBrokerConfig
    from odradek.log.log_manager import LogManager
    from odradek.ports.clock import Clock
    from odradek.ports.workers import Workers
    from odradek.replication.fetch_session import FetchSessionCache
    from odradek.replication.replica_manager import ReplicaManager
    from odradek.store.port import Store
    from odradek.store.producer_id_manager import ProducerIdManager
    from odradek.telemetry.rate_limited_events import RateLimitedEvents


@dataclass(slots=True)
class Context:
    broker_id: int
    cluster_id: str
    clock: Clock
    config: DynamicBrokerConfig
    image: MetadataCache
    all_topics_answers: AllTopicsAnswers
    replicas: ReplicaManager
    directories: LogManager
    topics: Topics
    fetch_sessions: FetchSessionCache
    producer_ids: ProducerIdManager
    groups: Groups
    transactions: Transactions
    markers: Markers
    verification: Verification
    store: Store
    workers: Workers
    listening: Listening
    refusals: RateLimitedEvents
    """The trace of batches that were refused."""
