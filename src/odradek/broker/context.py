"""What a handler may reach: the broker's parts, and nothing else of the world.

Handlers see these through narrow names, so that a part can later live in another process.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.broker.group_coordinator import Groups
    from odradek.broker.listening import Listening
    from odradek.broker.metadata import AllTopicsAnswers
    from odradek.broker.topics import Topics
    from odradek.broker.transaction_coordinator import Transactions
    from odradek.broker.transaction_markers import Markers
    from odradek.broker.transaction_verification import Verification
    from odradek.cluster.image import ClusterImage
    from odradek.config.layers import Layers
    from odradek.log.directories import LogDirectories
    from odradek.ports.clock import Clock
    from odradek.ports.workers import Workers
    from odradek.replication.fetch_sessions import FetchSessions
    from odradek.replication.replicas import Replicas
    from odradek.store.port import Store
    from odradek.store.producer_ids import ProducerIds
    from odradek.telemetry.bounded_events import BoundedEvents


@dataclass(slots=True)
class Context:
    broker_id: int
    cluster_id: str
    clock: Clock
    config: Layers
    image: ClusterImage
    all_topics_answers: AllTopicsAnswers
    replicas: Replicas
    directories: LogDirectories
    topics: Topics
    fetch_sessions: FetchSessions
    producer_ids: ProducerIds
    groups: Groups
    transactions: Transactions
    markers: Markers
    verification: Verification
    store: Store
    workers: Workers
    listening: Listening
    refusals: BoundedEvents
    """The trace of batches that were refused."""
