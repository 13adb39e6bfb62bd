"""Properties that hold in every state. Each has a name; a search stops at the first violation."""

from __future__ import annotations

from itertools import combinations
from typing import Final

from tests.model import real_rules
from tests.model.broker_steps import is_leader
from tests.model.rules import Model
from tests.model.state import BROKERS, MEMBERS, Scope, State, Status

ONE_LEADER: Final = "at most one broker leads in an epoch"
NO_LOSS: Final = "a leader has every record that was committed in its epoch or before"
COMMITTED_LOG: Final = "up to its high watermark every log equals the committed log"
MONOTONIC: Final = "the high watermark of a leader does not go back within an epoch"
MAXIMAL_ISR: Final = "the stored ISR is part of the leader's maximal ISR"
IN_SYNC: Final = "every committed record is in the log of every stored ISR member"
LOG_MATCHING: Final = "one record per offset and epoch, and equal logs before it"
COPIES: Final = "every committed record is in min.insync.replicas logs, unless power was lost"

INVARIANTS: Final = (
    *(ONE_LEADER, NO_LOSS, COMMITTED_LOG, MONOTONIC, MAXIMAL_ISR, IN_SYNC, LOG_MATCHING, COPIES),
)


def violated_by(model: Model, state: State) -> str | None:
    """Return the first invariant that does not hold in this state."""
    leaders = [broker for broker in BROKERS if is_leader(broker, state.replicas[broker])]
    if len(leaders) > len({state.replicas[broker].epoch for broker in leaders}):
        return ONE_LEADER
    if any(_lacks_committed(state, broker) for broker in leaders):
        return NO_LOSS
    committed = state.history.committed
    for replica in state.replicas:
        end_offset = replica.high_watermark
        if end_offset > len(replica.log) or replica.log[:end_offset] != committed[:end_offset]:
            return COMMITTED_LOG
    if any(_forgets_isr_member(model, state, broker) for broker in leaders):
        return MAXIMAL_ISR
    for broker in MEMBERS[state.stored.isr]:
        replica = state.replicas[broker]
        # The controller removes a replica that lost records as soon as it notices.
        if replica.status is not Status.DOWN_LOST and replica.log[: len(committed)] != committed:
            return IN_SYNC
    if not _logs_match(state):
        return LOG_MATCHING
    return None if _has_copies(model.scope, state) else COPIES


def violated_between(before: State, after: State) -> str | None:
    """Return the invariant that a step violates."""
    for broker, old, new in zip(BROKERS, before.replicas, after.replicas, strict=True):
        if (
            old is not new
            and new.high_watermark < old.high_watermark
            and is_leader(broker, old)
            and is_leader(broker, new)
            and old.epoch == new.epoch
        ):
            return MONOTONIC
    return None


def _lacks_committed(state: State, leader: int) -> bool:
    replica, history = state.replicas[leader], state.history
    return any(
        epoch <= replica.epoch and replica.log[offset : offset + 1] != history.committed[offset : offset + 1]
        for offset, epoch in enumerate(history.committed_in)
    )


def _forgets_isr_member(model: Model, state: State, leader: int) -> bool:
    replica = state.replicas[leader]
    if replica.epoch != state.stored.leader_epoch or replica.leadership is None:
        return False
    maximal = real_rules.maximal_isr(model.rules.leader_type, leader, replica.leadership)
    return bool(state.stored.isr & ~maximal)


def _logs_match(state: State) -> bool:
    if state.history.has_two_records:
        return False
    for first, second in combinations([replica.log for replica in state.replicas], 2):
        if first is second or first == second:
            continue
        for offset in range(min(len(first), len(second)) - 1, -1, -1):
            if first[offset] == second[offset]:
                if first[:offset] != second[:offset]:
                    return False
                break
    return True


def _has_copies(scope: Scope, state: State) -> bool:
    committed = state.history.committed
    copies = sum(replica.log[: len(committed)] == committed for replica in state.replicas)
    return not committed or copies >= scope.min_isr - (scope.losses - state.history.losses_left)
