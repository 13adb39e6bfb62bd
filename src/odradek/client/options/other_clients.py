"""Options of other Python clients that Kafka's clients do not have, and their replacements.

Used when an option is unknown, so that users of another client get the right name instead of the most
similar one.
"""

from __future__ import annotations

from typing import Final

# librdkafka's names, as used by confluent-kafka, and their names in Kafka.
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
    "queue.buffering.max.messages": "unsent records are limited in bytes: use buffer.memory",
    "batch.num.messages": "batches are limited in bytes: use batch.size",
    "compression.level": "use compression.gzip.level, compression.lz4.level or compression.zstd.level",
    "reconnect.backoff.jitter.ms": "use reconnect.backoff.ms; the jitter is always 20%",
    "queued.min.messages": "prefetched records are limited in bytes: use fetch.max.bytes",
    "queued.max.messages.kbytes": "use fetch.max.bytes, in bytes",
    "enable.auto.offset.store": "use enable.auto.commit=false and commit(offsets)",
    "enable.partition.eof": "compare position() with end_offsets()",
    "sticky.partitioning.linger.ms": "the partition changes with every batch.size bytes",
    "partitioner": "use the keyword argument partitioner of Producer",
    "delivery.report.only.error": "pass on_delivery to send",
    "statistics.interval.ms": "call metrics()",
    "stats.cb": "call metrics()",
    "error.cb": "errors are raised by the call that failed, and logged by the logger odradek",
    "on.delivery": "pass on_delivery to send",
    "logger": "clients log to the logger odradek",
    "debug": "set the level of the logger odradek",
    "log.level": "set the level of the logger odradek",
    "default.topic.config": "set its options directly",
    "api.version": "versions are negotiated with each broker",
    "api.version.request": "versions are negotiated with each broker",
    "broker.version.fallback": "versions are negotiated with each broker",
    "api.version.auto.timeout.ms": "versions are negotiated with each broker",
    "loop": "a client uses the event loop of its first call",
    "consumer.timeout.ms": "pass a timeout to poll",
    "group.instance": "use group.instance.id",
    "sock.chunk.bytes": "not needed",
    "sock.chunk.buffer.count": "not needed",
    "selector": "not needed",
    "socket.options": "use send.buffer.bytes and receive.buffer.bytes",
    "ssl.context": "use ssl.ca.location, ssl.certificate.location and ssl.key.location",
    "ssl.check.hostname": "use ssl.endpoint.identification.algorithm, which is https or empty",
    "ssl.password": "use ssl.key.password",
    "enable.ssl.certificate.verification": "certificates are always verified",
}


def advice(name: str) -> str | None:
    """Return the replacement of another client's option; None if the name is unknown."""
    dotted = name.replace("_", ".")
    if (renamed := _RENAMED.get(dotted)) is not None:
        return f"use {renamed}"
    return _EXPLAINED.get(dotted)
