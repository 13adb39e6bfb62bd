"""Errors of sink tasks, with advice."""

from __future__ import annotations

from typing import Final

from odradek.model.client_errors import (
    BufferFull,
    ClientError,
    ConnectionFailed,
    ProducerFenced,
    RecordTooLarge,
    TimedOut,
    UnknownTopic,
)
from odradek.model.errors import ErrorCode
from odradek.spark.options.sink_options import Guarantee, SinkOptions

_FENCING: Final = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})
"""Errors that leaders and coordinators return to a producer with an old epoch."""


class SinkFailed(Exception):
    """Raised when a task cannot write its rows."""


def explain(error: ClientError, options: SinkOptions) -> SinkFailed:
    """Return a producer error with advice, and with the state of the task's rows."""
    advice = _advice(error, options)
    if options.guarantee is Guarantee.EXACTLY_ONCE:
        outcome = "when this task runs again, readers of committed records will see its rows once"
    else:
        outcome = "rows sent before may be in the topic, and are written again when the task runs again"
    return SinkFailed(f"{error}; {f'{advice}; ' if advice else ''}{outcome}")


def _advice(error: ClientError, options: SinkOptions) -> str | None:
    timeout_ms = options.producer_settings.get("transaction.timeout.ms", "the default")
    if isinstance(error, ProducerFenced) or error.code in _FENCING:
        return (
            "another driver on the same checkpoint, or another attempt of this task, writes the same "
            "partition of this query: run one driver at a time, without speculation; or the transaction took "
            f"longer than kafka.transaction.timeout.ms ({timeout_ms}): reduce the micro-batch "
            "(maxOffsetsPerTrigger), or raise the timeout"
        )
    if error.code is ErrorCode.INVALID_TRANSACTION_TIMEOUT:
        return (
            f"set kafka.transaction.timeout.ms (now {timeout_ms}) to at most the brokers' "
            "transaction.max.timeout.ms"
        )
    if isinstance(error, RecordTooLarge):
        return "raise kafka.max.request.size of the sink and max.message.bytes of the topic"
    if isinstance(error, UnknownTopic):
        return "create the topic, or add the partition that the column partition names"
    if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
        return "a broker cannot write to its disk, which may be full: see its log"
    if isinstance(error, BufferFull):
        return "the brokers are slow or down: kafka.max.block.ms is the time to wait for buffer space"
    if isinstance(error, TimedOut | ConnectionFailed):
        return (
            "check that the brokers are up and kafka.bootstrap.servers is right; kafka.max.block.ms and "
            "kafka.delivery.timeout.ms are the time to try"
        )
    return None
