"""Sentences for the steps of a trace, and a picture of a state."""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.search import Violation
from tests.model.state import MEMBERS, NONE, Replica, State, Status


def tell(violation: Violation) -> Iterator[str]:
    for number, (label, _) in enumerate(violation.trace, 1):
        yield f"{number:3}. {sentence(label)}"
    yield f"     Violated: {violation.invariant}."
    yield from (f"     {line}" for line in picture(violation.trace[-1][1]))


def brokers(mask: object) -> str:
    assert isinstance(mask, int)
    return "{" + ", ".join(map(str, MEMBERS[mask])) + "}"


def sentence(label: tuple[object, ...]) -> str:
    return _broker_sentence(label) or _fetch_sentence(label) or _controller_sentence(label)


def _broker_sentence(label: tuple[object, ...]) -> str | None:
    match label:
        case ("append", broker, epoch, offset, acks):
            return f"Broker {broker} leads epoch {epoch} and appends offset {offset} (acks={acks})."
        case ("become_leader", broker, epoch, isr):
            return f"Broker {broker} receives LeaderAndIsr: it leads epoch {epoch} with ISR {brokers(isr)}."
        case ("become_follower", broker, leader, epoch):
            return f"Broker {broker} receives LeaderAndIsr: it follows broker {leader} in epoch {epoch}."
        case ("shrink", broker, old, new):
            return f"Broker {broker} proposes to shrink the ISR from {brokers(old)} to {brokers(new)}."
        case ("timeout", broker):
            return f"Broker {broker} gets no response to AlterPartition in time, and withdraws its proposal."
        case ("alteration_result", broker, outcome, isr):
            return f"Broker {broker} receives {outcome} for its proposed ISR {brokers(isr)}."
        case ("alteration_ignored", broker, outcome):
            return f"Broker {broker} receives {outcome} for a proposal that is not pending, and ignores it."
        case ("crash", broker, _, high_watermark):
            return f"Broker {broker} crashes. Its log survives, with high watermark {high_watermark}."
        case ("power_loss", broker, end_offset, high_watermark):
            return (
                f"Broker {broker} loses power, and its log from offset {end_offset} on;"
                f" its high watermark is {high_watermark}."
            )
        case ("restart", broker):
            return f"Broker {broker} restarts before the controller notices."
    return None


def _fetch_sentence(label: tuple[object, ...]) -> str | None:
    match label:
        case ("request", "FETCH_REQUEST", follower, leader, epoch, offset):
            return (
                f"Broker {follower} sends a fetch from offset {offset} to broker {leader}, in epoch {epoch}."
            )
        case ("request", _, follower, leader, epoch, _):
            return f"Broker {follower} sends OffsetForLeaderEpoch to broker {leader}, in epoch {epoch}."
        case ("lost", follower, leader):
            return f"The response of broker {leader} to broker {follower} is lost."
        case ("diverging", leader, follower, epoch, end_offset):
            return (
                f"Broker {leader} tells broker {follower} that its log diverges:"
                f" epoch {epoch} ends at {end_offset}."
            )
        case ("fetch", leader, follower, offset, isr, high_watermark):
            proposal = f" and proposes ISR {brokers(isr)}" if isr else ""
            return (
                f"Broker {leader} handles the fetch of broker {follower} from offset {offset}{proposal};"
                f" its high watermark is {high_watermark}."
            )
        case ("epoch_end", leader, follower, requested, epoch, end_offset):
            return (
                f"Broker {leader} tells broker {follower}, which asked for epoch {requested}:"
                f" epoch {epoch} ends at {end_offset}."
            )
        case ("append_as_follower", broker, count, end_offset, high_watermark):
            return (
                f"Broker {broker} receives {count} record(s): its log ends at {end_offset},"
                f" its high watermark is {high_watermark}."
            )
        case ("truncate", broker, old, new, epoch, end_offset):
            return (
                f"Broker {broker} truncates its log from {old} to {new}, because epoch {epoch}"
                f" ends at {end_offset}."
            )
    return None


def _controller_sentence(label: tuple[object, ...]) -> str:
    match label:
        case ("commit_response_lost", broker, isr):
            return f"The controller stores ISR {brokers(isr)}; the response to broker {broker} is lost."
        case ("commit_conflict", broker, isr, _):
            return (
                f"The controller stores ISR {brokers(isr)}, repeats the write after a lost connection,"
                f" and answers INVALID_UPDATE_VERSION to broker {broker}."
            )
        case ("commit" | "already_so", broker, isr, _):
            return f"The controller stores ISR {brokers(isr)}, and answers broker {broker}."
        case ("refuse", broker, isr, outcome):
            return f"The controller answers {outcome} to broker {broker}, which proposed ISR {brokers(isr)}."
        case ("elect", broker, epoch, isr):
            return f"The controller elects broker {broker}: epoch {epoch}, ISR {brokers(isr)}."
        case ("elect_unclean", broker, epoch, isr):
            return f"The controller elects broker {broker} uncleanly: epoch {epoch}, ISR {brokers(isr)}."
        case ("failure" | "bounce" as name, broker, *change):
            return f"The controller notices the {name} of broker {broker}{_change(change)}."
        case ("return", broker):
            return f"Broker {broker} is back."
    raise ValueError(f"label must be that of a step, got {label!r}")


def _change(change: list[object]) -> str:
    if not change:
        return ""
    leader, epoch, isr = change
    elected = "no leader" if leader == NONE else f"leader {leader}"
    return f": {elected}, epoch {epoch}, ISR {brokers(isr)}"


def picture(state: State) -> Iterator[str]:
    for broker, replica in enumerate(state.replicas):
        yield f"broker {broker}: {_role(broker, replica)}, {_log(replica)}"
    stored = state.stored
    yield f"stored: leader {stored.leader}, epoch {stored.leader_epoch}, ISR {brokers(stored.isr)}"
    yield f"committed: {list(state.history.committed)}"


def _log(replica: Replica) -> str:
    return f"epochs of its records {list(replica.log)}, high watermark {replica.high_watermark}"


def _role(broker: int, replica: Replica) -> str:
    if replica.status is not Status.UP:
        return "down"
    if replica.leader == NONE:
        return "without a role"
    if replica.leader != broker or replica.leadership is None:
        return f"follows broker {replica.leader} in epoch {replica.epoch}"
    isr, proposed = replica.leadership.isr, replica.leadership.proposed
    pending = f", proposed {brokers(proposed)}" if proposed else ""
    return f"leads epoch {replica.epoch} with ISR {brokers(isr)}{pending}"
