"""Options that other Python clients have and Kafka's own do not, and what to use here instead.

Looked at only when an option is unknown, so that whoever comes from another client is told the right name
rather than one that is spelled alike.
"""

from __future__ import annotations

from typing import Final

# librdkafka's names, which confluent-kafka takes: the same thing under Kafka's name.
_RENAMED: Final = {
    "queue.buffering.max.ms": "linger.ms",
    "message.send.max.retries": "retries",
    "message.timeout.ms": "delivery.timeout.ms",
    "request.required.acks": "acks",
    "compression.codec": "compression.type",
    "message.max.bytes": "max.request.size",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "topic.metadata.refresh.interval.ms": "metadata.max.age.ms",
    "topic.metadata.propagation.max.ms": "max.block.ms",
    "socket.timeout.ms": "request.timeout.ms",
    "socket.send.buffer.bytes": "send.buffer.bytes",
    "socket.receive.buffer.bytes": "receive.buffer.bytes",
    "partition.assignor": "partition.assignment.strategy",
    # aiokafka
    "max.batch.size": "batch.size",
    "rebalance.timeout.ms": "max.poll.interval.ms",
    # kafka-python
    "max.in.flight.requests": "max.in.flight.requests.per.connection",
}

_EXPLAINED: Final = {
    "queue.buffering.max.kbytes": "use buffer.memory, in bytes",
    "queue.buffering.max.messages": "records not yet sent are bounded in bytes: use buffer.memory",
    "batch.num.messages": "batches are bounded in bytes: use batch.size",
    "compression.level": "use compression.gzip.level, compression.lz4.level or compression.zstd.level",
    "reconnect.backoff.jitter.ms": "use reconnect.backoff.ms; waits always vary by a fifth",
    "queued.min.messages": "what is fetched ahead is bounded in bytes: use fetch.max.bytes",
    "queued.max.messages.kbytes": "use fetch.max.bytes, in bytes",
    "enable.auto.offset.store": "use enable.auto.commit=false and commit(offsets)",
    "enable.partition.eof": "compare position() with end_offsets()",
    "sticky.partitioning.linger.ms": "the partition changes with every batch.size bytes",
    "partitioner": "give it as the keyword argument partitioner, to producers",
    "delivery.report.only.error": "give send an on_delivery of your own",
    "statistics.interval.ms": "call metrics() when figures are wanted",
    "stats.cb": "call metrics() when figures are wanted",
    "error.cb": "errors are raised where they matter, and logged by the logger odradek",
    "on.delivery": "give it to send",
    "logger": "clients log by the logger odradek",
    "debug": "set the level of the logger odradek",
    "log.level": "set the level of the logger odradek",
    "default.topic.config": "give its options directly",
    "api.version": "versions are agreed on with each broker",
    "api.version.request": "versions are agreed on with each broker",
    "broker.version.fallback": "versions are agreed on with each broker",
    "api.version.auto.timeout.ms": "versions are agreed on with each broker",
    "loop": "a client belongs to the loop in which it is first used",
    "consumer.timeout.ms": "give poll the time to wait",
    "group.instance": "use group.instance.id",
    "sock.chunk.bytes": "nothing of the kind is needed",
    "sock.chunk.buffer.count": "nothing of the kind is needed",
    "selector": "nothing of the kind is needed",
    "socket.options": "use send.buffer.bytes and receive.buffer.bytes",
    "ssl.context": "TLS is not available in this version",
    "sasl.plain.username": "SASL is not available in this version",
    "sasl.plain.password": "SASL is not available in this version",
    "sasl.username": "SASL is not available in this version",
    "sasl.password": "SASL is not available in this version",
    "sasl.mechanisms": "use sasl.mechanism",
}


def advice(name: str) -> str | None:
    """What to use in place of an option of another client; None for names no client is known to have."""
    dotted = name.replace("_", ".")
    if (renamed := _RENAMED.get(dotted)) is not None:
        return f"use {renamed}"
    return _EXPLAINED.get(dotted)
