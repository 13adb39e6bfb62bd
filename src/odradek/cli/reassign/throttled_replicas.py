"""Throttles of reassignments: the settings of topics and brokers that limit the copying of replicas. Pure.

A leader limits what it sends to its throttled replicas, a follower what it fetches for its own. As in Kafka's
tool, the current replicas are throttled as leaders (any of them may lead), the added ones as followers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from odradek.cli.reassign.assignment_json import Replicas
from odradek.model.ids import TopicPartition

if TYPE_CHECKING:
    from odradek.client.admin.reassignments import PartitionReassignment

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
LOG_DIRS_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"
BROKER_THROTTLES: Final = (LEADER_RATE, FOLLOWER_RATE, LOG_DIRS_RATE)
TOPIC_THROTTLES: Final = (LEADER_REPLICAS, FOLLOWER_REPLICAS)


class ReplicaCopies(NamedTuple):
    """Brokers that a partition is copied from, and to."""

    sources: Replicas
    destinations: Replicas


def copies_to_throttle(
    targets: Mapping[TopicPartition, Replicas],
    current: Mapping[TopicPartition, Replicas],
    ongoing: Mapping[TopicPartition, PartitionReassignment],
) -> dict[TopicPartition, ReplicaCopies]:
    """Return the copies of new reassignments, and of ongoing ones that they do not replace.

    A topic has a single list of throttled replicas: it must contain those of ongoing reassignments, too.
    """
    copies = {
        partition: ReplicaCopies(reassignment.origin, reassignment.adding)
        for partition, reassignment in ongoing.items()
    }
    for partition, replicas in targets.items():
        sources = copies[partition].sources if partition in copies else current[partition]
        added = tuple(replica for replica in replicas if replica not in sources)
        copies[partition] = ReplicaCopies(sources, added)
    return copies


def topic_throttles(copies: Mapping[TopicPartition, ReplicaCopies]) -> dict[str, dict[str, str]]:
    """Return the settings of each topic."""
    topics: dict[str, dict[str, list[str]]] = {}
    for (topic, number), copy in sorted(copies.items()):
        settings = topics.setdefault(topic, {LEADER_REPLICAS: [], FOLLOWER_REPLICAS: []})
        settings[LEADER_REPLICAS] += [f"{number}:{broker}" for broker in sorted(copy.sources)]
        settings[FOLLOWER_REPLICAS] += [f"{number}:{broker}" for broker in sorted(copy.destinations)]
    return {
        topic: {name: ",".join(replicas) for name, replicas in settings.items()}
        for topic, settings in topics.items()
    }


def broker_throttles(
    copies: Iterable[ReplicaCopies],
    rate: int | None,
    log_dir_brokers: Iterable[int],
    log_dirs_rate: int | None,
) -> dict[int, dict[str, str]]:
    """Return the settings of each broker; a rate of None sets nothing."""
    settings: dict[int, dict[str, str]] = {}
    if rate is not None:
        for broker in {broker for copy in copies for broker in (*copy.sources, *copy.destinations)}:
            settings[broker] = {LEADER_RATE: str(rate), FOLLOWER_RATE: str(rate)}
    if log_dirs_rate is not None:
        for broker in log_dir_brokers:
            settings.setdefault(broker, {})[LOG_DIRS_RATE] = str(log_dirs_rate)
    return dict(sorted(settings.items()))
