"""Checks of a client history.

``written`` is the whole log at the end, ``committed`` its read_committed view. Violations are named as in
Jepsen's Kafka workload where it has a name.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator

from tests.faults.clients.history import Assigned, ConsumerPart, History, Log, ProducerPart, Send


def check_history(history: History, written: Log, committed: Log) -> list[str]:
    """Return all violations."""
    problems_found = [
        *problems(history),
        *wrong_callbacks(history),
        *lost_writes(history, written, committed),
        *duplicates(written),
        *inconsistent_offsets(history, written),
        *reordered_sends(history, written),
        *torn_transactions(history, committed),
    ]
    for consumer in history.consumers:
        problems_found += [
            *aborted_reads(history, consumer),
            *precommitted_reads(history, consumer),
            *bad_polls(consumer, committed),
        ]
    return [*problems_found, *never_polled(history, committed)]


def problems(history: History) -> Iterator[str]:
    """Yield unexpected errors of actors."""
    parts: list[ProducerPart | ConsumerPart] = [*history.producers, *history.consumers]
    for part in parts:
        if part.problem:
            yield f"{part.name}: {part.problem}"


def _sends(history: History) -> Iterator[tuple[ProducerPart, Send]]:
    for producer in history.producers:
        for send in producer.sends:
            yield producer, send


def _at(log: Log) -> dict[tuple[int, int], str]:
    return {(partition, offset): value for partition, records in log.items() for offset, value in records}


def wrong_callbacks(history: History) -> Iterator[str]:
    """Yield sends without exactly one callback."""
    for producer, send in _sends(history):
        if send.callbacks != 1:
            yield f"callback: {producer.name} had {send.callbacks} callbacks for {send.value}"


def lost_writes(history: History, written: Log, committed: Log) -> Iterator[str]:
    """Yield acknowledged records that are not at their offset; in a transaction, once it is committed."""
    everything, visible = _at(written), _at(committed)
    of_transactions = {
        send.value: transaction.outcome
        for producer in history.producers
        for transaction in producer.transactions
        for send in transaction.sends
    }
    for producer, send in _sends(history):
        if send.offset < 0:
            continue
        partition_offset = (send.partition, send.offset)
        if everything.get(partition_offset) != send.value:
            yield f"lost-write: {send.value} of {producer.name} is not at {partition_offset}"
        elif of_transactions.get(send.value, "committed") == "committed" and partition_offset not in visible:
            yield f"lost-write: {send.value} of {producer.name} is committed and not read"


def duplicates(written: Log) -> Iterator[str]:
    """Yield records that are written twice."""
    seen: dict[str, tuple[int, int]] = {}
    for (partition, offset), value in _at(written).items():
        if value in seen:
            yield f"duplicate: {value} is at {seen[value]} and {(partition, offset)}"
        seen[value] = (partition, offset)


def inconsistent_offsets(history: History, written: Log) -> Iterator[str]:
    """Yield offsets at which a consumer read another record than the log has."""
    everything = _at(written)
    for consumer in history.consumers:
        for event in consumer.events:
            if isinstance(event, Assigned):
                continue
            present = everything.get((event.partition, event.offset))
            if present != event.value:
                yield (
                    f"inconsistent-offsets: {consumer.name} read {event.value} at "
                    f"{(event.partition, event.offset)}, where {present} is"
                )


def reordered_sends(history: History, written: Log) -> Iterator[str]:
    """Yield records of a producer that are out of order in a partition."""
    ranks = {
        send.value: (producer.name, rank)
        for producer in history.producers
        for rank, send in enumerate(producer.sends)
    }
    for partition, records in written.items():
        last: dict[str, tuple[int, str]] = {}
        for _, value in records:
            name, rank = ranks.get(value, ("", 0))
            before = last.get(name)
            if name and before is not None and rank < before[0]:
                yield f"nonmonotonic-send: {value} of {name} is after {before[1]} in partition {partition}"
            last[name] = (rank, value)


def torn_transactions(history: History, committed: Log) -> Iterator[str]:
    """Yield partially visible transactions, and visible aborted ones."""
    visible = {value for records in committed.values() for _, value in records}
    for producer in history.producers:
        for number, transaction in enumerate(producer.transactions):
            values = {send.value for send in transaction.sends}
            present = values & visible
            if transaction.outcome == "committed" and present != values:
                missing = f"{len(values - present)} of {len(values)} records"
                yield f"torn: {missing} of {producer.name} {number} are missing"
            elif transaction.outcome == "aborted" and present:
                yield f"aborted-read: {min(present)} of {producer.name} {number} is there, which was aborted"
            elif present and present != values:
                yield f"torn: {len(present)} of {len(values)} records of {producer.name} {number} are there"


def aborted_reads(history: History, consumer: ConsumerPart) -> Iterator[str]:
    """Yield records of aborted transactions read with read_committed (G1a)."""
    aborted = {
        send.value
        for producer in history.producers
        for transaction in producer.transactions
        if transaction.outcome == "aborted"
        for send in transaction.sends
    }
    for event in consumer.events:
        if not isinstance(event, Assigned) and event.value in aborted:
            yield f"aborted-read: {consumer.name} read {event.value}"


def precommitted_reads(history: History, consumer: ConsumerPart) -> Iterator[str]:
    """Yield records read with read_committed before their producer was asked to commit them."""
    transactions = {
        send.value: transaction
        for producer in history.producers
        for transaction in producer.transactions
        if transaction.outcome != "aborted"
        for send in transaction.sends
    }
    for event in consumer.events:
        transaction = None if isinstance(event, Assigned) else transactions.get(event.value)
        if isinstance(event, Assigned) or transaction is None:
            continue
        if transaction.commit_began_s is None or event.polled_s < transaction.commit_began_s:
            yield f"precommitted-read: {consumer.name} read {event.value} before its commit"


def bad_polls(consumer: ConsumerPart, committed: Log) -> Iterator[str]:
    """Yield records that a consumer read out of order or skipped."""
    offsets = {partition: [offset for offset, _ in records] for partition, records in committed.items()}
    last: dict[int, int] = {}
    for event in consumer.events:
        if isinstance(event, Assigned):
            for partition in event.partitions:
                last.pop(partition, None)
            continue
        before = last.get(event.partition)
        last[event.partition] = event.offset
        if before is None:
            continue
        if event.offset <= before:
            offsets_text = f"{event.offset} of {event.partition} after {before}"
            yield f"nonmonotonic-poll: {consumer.name} read {offsets_text}"
        present = offsets.get(event.partition, [])
        after = bisect_right(present, before)
        if after < len(present) and present[after] < event.offset:
            yield f"poll-skip: {consumer.name} did not read {present[after]} of partition {event.partition}"


def never_polled(history: History, committed: Log) -> Iterator[str]:
    """Yield committed records that no consumer of the group read."""
    if not history.consumers:
        return
    polled: dict[int, set[int]] = defaultdict(set)
    for consumer in history.consumers:
        for event in consumer.events:
            if not isinstance(event, Assigned):
                polled[event.partition].add(event.offset)
    for partition, records in committed.items():
        unseen = [offset for offset, _ in records if offset not in polled[partition]]
        if unseen:
            yield f"never-polled: {len(unseen)} records of partition {partition}, the first at {unseen[0]}"
