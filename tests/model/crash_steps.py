"""Steps of nature: crashes of processes and of power."""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.rules import Model
from tests.model.state import NONE, REQUESTS, Outcome, Replica, State, Status, Step, with_replica


def steps(model: Model, state: State) -> Iterator[Step]:
    history = state.history
    for broker, replica in enumerate(state.replicas):
        if replica.status is Status.UP:
            length = len(replica.log)
            if history.crashes_left:
                after = state._replace(history=history._replace(crashes_left=history.crashes_left - 1))
                yield from _crash(after, broker, replica, Status.DOWN, length)
            if history.losses_left and not _is_joining(model, state, broker):
                after = state._replace(history=history._replace(losses_left=history.losses_left - 1))
                for offset in range(length):
                    yield from _crash(after, broker, replica, Status.DOWN_LOST, offset)
        elif model.rules.restart_hides_crash and replica.status in (Status.DOWN, Status.DOWN_LOST):
            restarted = replica._replace(status=Status.UP, epoch=NONE)
            yield ("restart", broker), with_replica(state, broker, restarted)


def _crash(state: State, broker: int, replica: Replica, status: Status, end_offset: int) -> Iterator[Step]:
    """Lose everything in memory and the log from ``end_offset`` on; the checkpoint of the high watermark
    may be current or from the beginning. Requests to and from the broker are lost with its connections,
    except AlterPartition, which the controller has queued.
    """
    messages = tuple(
        message
        for message in state.messages
        if message.follower != broker and (message.leader != broker or message.kind not in REQUESTS)
    )
    alterations = tuple(
        alteration
        for alteration in state.alterations
        if alteration.broker != broker or alteration.outcome is Outcome.PENDING
    )
    after = state._replace(messages=messages, alterations=alterations)
    name = "power_loss" if status is Status.DOWN_LOST else "crash"
    for high_watermark in {min(replica.high_watermark, end_offset), 0}:
        crashed = Replica(status, NONE, NONE, replica.log[:end_offset], NONE, high_watermark, False, None)
        yield (name, broker, end_offset, high_watermark), with_replica(after, broker, crashed)


def _is_joining(model: Model, state: State, broker: int) -> bool:
    """Return whether an ISR change that adds the broker is pending.

    The controller in ZooKeeper mode cannot tell that the replica which is to join has restarted since it
    was caught up (KIP-903): the ISR has no broker epochs.
    """
    if model.scope.joining_replica_may_lose:
        return False
    bit = 1 << broker
    additions = [alteration.isr for alteration in state.alterations]
    for replica in state.replicas:
        if replica.leadership is not None:
            additions.append(replica.leadership.proposed & ~replica.leadership.isr)
    return not state.stored.isr & bit and any(isr & bit for isr in additions)
