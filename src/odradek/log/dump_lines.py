"""Lines of the dump for producers and aborted transactions, in the format of Kafka's tool. Pure."""

from __future__ import annotations

from odradek.log.producers.producer_states import ProducerStateEntry
from odradek.log.segments.transaction_index import VERSION, AbortedTransaction


def producer_line(producer: ProducerStateEntry) -> str:
    """Return the line of a ``.snapshot`` entry. Like Kafka's, it ends with a space if there is no batch."""
    offset = producer.transaction_first_offset
    line = (
        f"producerId: {producer.producer_id} producerEpoch: {producer.producer_epoch} "
        f"coordinatorEpoch: {producer.coordinator_epoch} "
        f"currentTxnFirstOffset: {'OptionalLong.empty' if offset < 0 else f'OptionalLong[{offset}]'} "
        f"lastTimestamp: {producer.last_timestamp} "
    )
    if not producer.batches:
        return line
    batch = producer.batches[-1]
    return (
        f"{line}firstSequence: {batch.first_sequence} lastSequence: {batch.last_sequence} "
        f"lastOffset: {batch.last_offset} offsetDelta: {batch.last_offset - batch.first_offset} "
        f"timestamp: {batch.timestamp}"
    )


def aborted_line(entry: AbortedTransaction) -> str:
    """Return the line of a ``.txnindex`` entry."""
    return (
        f"version: {VERSION} producerId: {entry.producer_id} firstOffset: {entry.first_offset} "
        f"lastOffset: {entry.last_offset} lastStableOffset: {entry.last_stable_offset}"
    )
