"""R6: links that lose packets or are slow, connections that are reset or half-open.

The router between namespaces loses packets and slows links; the Kafka proxy resets connections amid a
request, leaves them half-open, and limits the bandwidth of clients or of brokers among themselves.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Final

from tests.cluster_faults.harness.networks import End
from tests.cluster_faults.harness.proxy_rule import Action, Rule, Source
from tests.cluster_faults.harness.request_causes import proxy_of
from tests.cluster_faults.harness.request_header import Api
from tests.cluster_faults.harness.scene import Scene

LOST_SHARE_MIN = 0.05
LOST_SHARE_MAX = 0.2
SLOW_KILOBITS = 512
LOSSY_SECONDS = 1.5
HALF_OPEN_SECONDS = 1.0
CLIENT_BYTES_PER_SECOND = 10_000
BROKER_BYTES_PER_SECOND = 30_000
RESET_EVERY = 7
RESET_COUNT = 10


# Packets.


def lose_packets_between_brokers(scene: Scene) -> None:
    """Lose packets between a leader and its followers, in both directions."""
    leader, followers = scene.cluster.leader(scene.topic), scene.cluster.followers(scene.topic)
    _lose(scene, *(pair for other in followers for pair in ((leader, other), (other, leader))))


def lose_packets_of_clients(scene: Scene) -> None:
    """Lose packets between clients and a leader, in both directions."""
    leader = scene.cluster.leader(scene.topic)
    _lose(scene, (leader, End.CLIENTS), (End.CLIENTS, leader))


def _lose(scene: Scene, *directions: tuple[int | End, int | End]) -> None:
    share = scene.rng.uniform(LOST_SHARE_MIN, LOST_SHARE_MAX)
    scene.note("lossy links")
    with scene.cluster.lossy(share, *directions):
        time.sleep(LOSSY_SECONDS)
        scene.wait_for_progress()


def slow_links_to_brokers(scene: Scene) -> None:
    """Slow down everything that is sent to a leader and a follower."""
    leader, (follower, _) = scene.cluster.leader(scene.topic), scene.cluster.followers(scene.topic)
    scene.note("slow links")
    with scene.cluster.slow_links(SLOW_KILOBITS, leader, follower):
        time.sleep(LOSSY_SECONDS)
        scene.wait_for_progress()


# Connections.


def limit_bandwidth(scene: Scene, source: Source, bytes_per_second: int) -> None:
    scene.note(f"slow connections of {source}")
    rule = Rule(Action.LIMIT, source=source, bytes_per_second=bytes_per_second)
    with proxy_of(scene).rule(rule) as in_force:
        in_force.wait_for_hits()
        scene.wait_for_progress()


def reset_connections(scene: Scene, source: Source) -> None:
    """Reset connections amid requests of any kind."""
    rule = Rule(Action.RESET, source=source, every=RESET_EVERY, count=RESET_COUNT)
    _break(scene, rule, f"resets of connections of {source}", RESET_COUNT)


def drop_responses(scene: Scene, source: Source) -> None:
    """Close connections instead of passing responses on: the requests were done."""
    rule = Rule(Action.DROP_RESPONSE, source=source, every=RESET_EVERY, count=RESET_COUNT)
    _break(scene, rule, f"dropped responses to {source}", RESET_COUNT)


def stall_client_connections(scene: Scene) -> None:
    """Leave connections of clients half-open, before or after the broker does what was requested."""
    action = scene.rng.choice((Action.STALL, Action.LOSE_RESPONSE))
    rule = Rule(action, (Api.PRODUCE, Api.FETCH, Api.END_TXN), source=Source.CLIENTS, count=3)
    _break(scene, rule, "half-open connections of clients", 1)


def stall_follower_fetches(scene: Scene) -> None:
    """Leave connections on which a leader is fetched from half-open, until its followers are out of sync."""
    action = scene.rng.choice((Action.STALL, Action.LOSE_RESPONSE))
    leader = scene.cluster.leader(scene.topic)
    rule = Rule(action, (Api.FETCH,), (leader,), Source.BROKERS, count=1)
    _break(scene, rule, "half-open connections of followers", 1)


def stall_broker_connections(scene: Scene) -> None:
    """Leave any connections between brokers half-open for a while; they close before requests time out."""
    action = scene.rng.choice((Action.STALL, Action.LOSE_RESPONSE))
    scene.note("half-open connections of brokers")
    with proxy_of(scene).rule(Rule(action, source=Source.BROKERS, every=3, count=3)) as in_force:
        in_force.wait_for_hits()
        time.sleep(HALF_OPEN_SECONDS)
    scene.wait_for_progress()


def _break(scene: Scene, rule: Rule, what: str, hits: int) -> None:
    scene.pause()
    scene.note(what)
    with proxy_of(scene).rule(rule) as in_force:
        in_force.wait_for_hits(hits)
        scene.wait_for_progress()


PACKET_FAULTS: Final = (lose_packets_between_brokers, lose_packets_of_clients, slow_links_to_brokers)
CONNECTION_FAULTS: Final[dict[str, Callable[[Scene], None]]] = {
    "slow_clients": partial(limit_bandwidth, source=Source.CLIENTS, bytes_per_second=CLIENT_BYTES_PER_SECOND),
    "slow_brokers": partial(limit_bandwidth, source=Source.BROKERS, bytes_per_second=BROKER_BYTES_PER_SECOND),
    "reset_clients": partial(reset_connections, source=Source.CLIENTS),
    "reset_brokers": partial(reset_connections, source=Source.BROKERS),
    "drop_responses_to_clients": partial(drop_responses, source=Source.CLIENTS),
    "drop_responses_to_brokers": partial(drop_responses, source=Source.BROKERS),
    "stall_client_connections": stall_client_connections,
    "stall_follower_fetches": stall_follower_fetches,
    "stall_broker_connections": stall_broker_connections,
}
