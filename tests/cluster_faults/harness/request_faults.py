"""R7: requests of one kind that are delayed, doubled, sent again later, or whose responses are lost.

TCP does not duplicate a request; a sender whose connection ends before the response comes, and who tries
again on another one, does. Kafka 3.9 promises this:

- A batch of an idempotent producer is appended once, however late its copy comes.
- A copy that directly follows its request does no harm: transactions know what was added, and how they ended;
  leader epochs, ISR versions and fetch session epochs tell brokers what they have seen already.
- A late copy of LeaderAndIsr has an old leader epoch. A late OffsetCommit has an old generation, or makes a
  consumer read records again.

It does not promise anything for late copies of EndTxn, AddPartitionsToTxn, TxnOffsetCommit and
WriteTxnMarkers, which may fall into the next transaction of the same producer epoch (with KIP-890, in later
versions, each transaction has an epoch of its own), nor of StopReplica for a topic of the same name. They are
doubled at once, not later, and are not delayed for longer than their senders wait.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from tests.cluster_faults.harness.proxy_rule import Action, Rule, Source
from tests.cluster_faults.harness.request_causes import (
    Cause,
    change_isr,
    change_isr_and_controller,
    copy,
    delete_topic,
    load,
    move_leaders,
    proxy_of,
    rebalance,
)
from tests.cluster_faults.harness.request_header import Api
from tests.cluster_faults.harness.scene import OPTIONS, Scene

DELAY_SECONDS_MIN = 0.1
DELAY_SECONDS_MAX = 0.8
REPLAY_SECONDS_MAX = 1.5
TIMEOUT_SECONDS = OPTIONS["request_timeout_ms"] / 1000


class RequestKind(NamedTuple):
    """A kind of requests, and what causes some."""

    name: str
    apis: tuple[Api, ...]
    cause: Cause
    source: Source | None = None
    delay_seconds_max: float = DELAY_SECONDS_MAX
    drop_every: int = 2
    """Responses that are lost: every second, every third."""


KINDS: Final = (
    RequestKind("produce", (Api.PRODUCE,), load),
    RequestKind("end_txn", (Api.END_TXN,), load),
    RequestKind("add_partitions_to_txn", (Api.ADD_PARTITIONS_TO_TXN,), load, Source.CLIENTS),
    RequestKind("write_txn_markers", (Api.WRITE_TXN_MARKERS,), load),
    RequestKind("offset_commit", (Api.OFFSET_COMMIT,), load),
    # After an error a follower waits for a second. Too many would keep it out of the ISR.
    RequestKind("follower_fetch", (Api.FETCH,), load, Source.BROKERS, 0.3, 25),
    RequestKind("join_and_sync_group", (Api.JOIN_GROUP, Api.SYNC_GROUP), rebalance),
    RequestKind("leader_and_isr", (Api.LEADER_AND_ISR,), move_leaders),
    RequestKind("update_metadata", (Api.UPDATE_METADATA,), move_leaders),
    RequestKind("stop_replica", (Api.STOP_REPLICA,), delete_topic),
    RequestKind("alter_partition", (Api.ALTER_PARTITION,), change_isr),
    RequestKind("txn_offset_commit", (Api.TXN_OFFSET_COMMIT,), copy),
)
REPLAYED = ("produce", "offset_commit", "leader_and_isr")
_BY_NAME: Final = {kind.name: kind for kind in KINDS}


def _change(scene: Scene, kind: RequestKind, rule: Rule, what: str) -> None:
    """Have a rule until it has changed requests under load, and the load got on."""
    scene.pause()
    with proxy_of(scene).rule(rule) as in_force:
        scene.note(what)
        kind.cause(scene, in_force)
        in_force.wait_for_hits()
        scene.wait_for_progress()
    scene.report.outcomes[f"requests: {what}"] += in_force.hits


def delay(scene: Scene, kind: RequestKind) -> None:
    """Delay all requests of a kind, or all their responses."""
    action = scene.rng.choice((Action.DELAY_REQUEST, Action.DELAY_RESPONSE))
    seconds = scene.rng.uniform(DELAY_SECONDS_MIN, kind.delay_seconds_max)
    rule = Rule(action, tuple(kind.apis), source=kind.source, seconds=seconds)
    _change(scene, kind, rule, f"{action} {kind.name}")


def double(scene: Scene, kind: RequestKind) -> None:
    """Send all requests of a kind twice."""
    rule = Rule(Action.DOUBLE, tuple(kind.apis), source=kind.source)
    _change(scene, kind, rule, f"double {kind.name}")


def drop(scene: Scene, kind: RequestKind) -> None:
    """Close the connection instead of passing some responses on: requests were done, and are sent again."""
    rule = Rule(Action.DROP_RESPONSE, tuple(kind.apis), source=kind.source, every=kind.drop_every)
    _change(scene, kind, rule, f"drop the response of {kind.name}")


def replay(scene: Scene, kind: RequestKind) -> None:
    """Send requests of a kind again, when later ones have been sent."""
    seconds = scene.rng.uniform(0.0, REPLAY_SECONDS_MAX)
    rule = Rule(Action.REPLAY, tuple(kind.apis), source=kind.source, seconds=seconds)
    _change(scene, kind, rule, f"replay {kind.name}")
    if kind.cause is move_leaders:
        move_leaders(scene)


def delay_produce_beyond_timeout(scene: Scene) -> None:
    """Delay some requests until their senders have given up and sent them again: they come twice."""
    rule = Rule(
        Action.DELAY_REQUEST, (Api.PRODUCE,), source=Source.CLIENTS, every=4, seconds=1.3 * TIMEOUT_SECONDS
    )
    _change(scene, RequestKind("produce", (Api.PRODUCE,), load), rule, "delay produce beyond the timeout")


def move_controller_and_drop_alter_partition(scene: Scene) -> None:
    """Drop the controller's answer to a change of the ISR, and move the controller at the same time."""
    kind = RequestKind("alter_partition", (Api.ALTER_PARTITION,), change_isr_and_controller)
    rule = Rule(Action.DROP_RESPONSE, (Api.ALTER_PARTITION,))
    _change(scene, kind, rule, "drop alter_partition and move the controller")


def request_faults() -> dict[str, Callable[[Scene], None]]:
    """Return all of them by name."""
    named: dict[str, Callable[[Scene], None]] = {}
    for kind in KINDS:
        named[f"delay_{kind.name}"] = partial(delay, kind=kind)
        named[f"double_{kind.name}"] = partial(double, kind=kind)
        named[f"drop_{kind.name}"] = partial(drop, kind=kind)
    for name in REPLAYED:
        named[f"replay_{name}"] = partial(replay, kind=_BY_NAME[name])
    for fault in (delay_produce_beyond_timeout, move_controller_and_drop_alter_partition):
        named[fault.__name__] = fault
    return named
