"""Checks of files and events of brokers after a fault, when all replicas are in sync and nothing is sent.

Each yields texts that begin with the name of a violation:

- ``replicas-differ``: a replica has other bytes below the high watermark than the leader;
- ``two-leaders-in-epoch``: two brokers led a partition in the same leader epoch;
- ``leader-epoch-back``: a broker followed an outdated LeaderAndIsr;
- ``two-controllers-in-epoch``: two brokers were controller in the same controller epoch;
- ``crash``: a broker logged a traceback.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from tests.cluster_faults.harness.fault_cluster import FaultCluster
from tests.mixed.harness.log_files import first_difference, read_batches, read_high_watermark

LEADER_CHANGED = re.compile(
    r"replica_manager\.leader_changed partition=(\S+) topic_id=(\S+) leader=(\d+) leader_epoch=(\d+)"
)
CONTROLLER_ELECTED = re.compile(r"membership\.controller_elected broker=(\d+) controller_epoch=(\d+)")


def check_cluster(
    cluster: FaultCluster, topic: str, partitions: Iterable[int], replicas: Sequence[int] | None = None
) -> Iterator[str]:
    """Yield all violations of a topic's replicas (default: those assigned) and of all brokers' events."""
    for partition in partitions:
        chosen = cluster.replicas(topic, partition) if replicas is None else replicas
        yield from check_replicas(cluster, topic, partition, chosen)
    yield from check_events(cluster)


def check_events(cluster: FaultCluster) -> Iterator[str]:
    """Yield violations that the brokers' events show, in whatever state the cluster is."""
    texts = {broker: cluster.output(broker).read_text(errors="replace") for broker in cluster.started}
    yield from two_leaders_in_epoch(texts)
    yield from leader_epochs_going_back(texts)
    yield from two_controllers_in_epoch(texts.values())
    yield from crashes(texts)


def check_replicas(
    cluster: FaultCluster, topic: str, partition: int, replicas: Sequence[int]
) -> Iterator[str]:
    leader = cluster.leader(topic, partition)
    high_watermark = read_high_watermark(cluster.address(leader), topic, partition)
    directories = {broker: cluster.replica_dir(broker, topic, partition) for broker in replicas}
    yield from differing_replicas(f"{topic}-{partition}", directories, leader, high_watermark)


def differing_replicas(
    name: str, directories: Mapping[int, Path], leader: int, high_watermark: int
) -> Iterator[str]:
    """Compare the batches below the high watermark, byte for byte, with those of the leader."""
    logs = {
        broker: [batch for batch in read_batches(directory) if batch.base_offset < high_watermark]
        for broker, directory in directories.items()
    }
    for broker, batches in logs.items():
        end = batches[-1].last_offset + 1 if batches else 0
        if end != high_watermark:
            yield f"replicas-differ: {name} of broker {broker} ends at {end}, must reach {high_watermark}"
        elif difference := first_difference(logs[leader], batches):
            yield f"replicas-differ: {name} of broker {broker} and leader {leader}: {difference}"


def two_leaders_in_epoch(texts: Mapping[int, str]) -> Iterator[str]:
    """Yield partitions of which two brokers say that they became the leader in the same epoch."""
    leaders: dict[tuple[str, str, int], set[int]] = defaultdict(set)
    for broker, text in texts.items():
        for partition, topic_id, leader, epoch in LEADER_CHANGED.findall(text):
            if int(leader) == broker:
                leaders[partition, topic_id, int(epoch)].add(broker)
    for (partition, _, epoch), brokers in leaders.items():
        if len(brokers) > 1:
            yield f"two-leaders-in-epoch: {sorted(brokers)} led {partition} in epoch {epoch}"


def leader_epochs_going_back(texts: Mapping[int, str]) -> Iterator[str]:
    """Yield partitions for which a broker followed an older LeaderAndIsr after a newer one."""
    for broker, text in texts.items():
        epochs: dict[tuple[str, str], int] = {}
        for partition, topic_id, _, epoch in LEADER_CHANGED.findall(text):
            before = epochs.get((partition, topic_id), -1)
            epochs[partition, topic_id] = int(epoch)
            if int(epoch) < before:
                yield f"leader-epoch-back: of {partition} on broker {broker}, from {before} to {epoch}"


def two_controllers_in_epoch(texts: Iterable[str]) -> Iterator[str]:
    controllers: dict[int, set[int]] = defaultdict(set)
    for text in texts:
        for broker, epoch in CONTROLLER_ELECTED.findall(text):
            controllers[int(epoch)].add(int(broker))
    for epoch, brokers in controllers.items():
        if len(brokers) > 1:
            yield f"two-controllers-in-epoch: {sorted(brokers)} in epoch {epoch}"


def crashes(texts: Mapping[int, str]) -> Iterator[str]:
    for broker, text in texts.items():
        if "Traceback" in text:
            at = text.index("Traceback")
            yield f"crash: of broker {broker}: {text[max(0, at - 300) : at + 1500]}"
