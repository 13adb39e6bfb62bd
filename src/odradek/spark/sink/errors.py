"""Why a task of the sink failed, in words that say what to do."""

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
"""What leaders and coordinators answer to the producer of an epoch that is over."""


class SinkFailed(Exception):
    """A task could not write its rows."""


def explained(error: ClientError, options: SinkOptions) -> SinkFailed:
    """An error of the producer, which names topic and partition, with what can be done about it."""
    advice = _advice(error, options)
    if options.guarantee is Guarantee.EXACTLY_ONCE:
        fate = "when this task is run again, readers of committed records will see its rows once"
    else:
        fate = "rows sent before may be in the topic, and will be written again when the task is"
    return SinkFailed(f"{error}; {f'{advice}; ' if advice else ''}{fate}")


def _advice(error: ClientError, options: SinkOptions) -> str | None:
    timeout_ms = options.producer_settings.get("transaction.timeout.ms", "the default")
    if isinstance(error, ProducerFenced) or error.code in _FENCING:
        return (
            "another driver on the same checkpoint, or another attempt of this task, writes the same "
            "partition of this query: run one driver at a time, without speculation; or the transaction took "
            f"longer than kafka.transaction.timeout.ms ({timeout_ms}): give the query less per micro-batch "
            "(maxOffsetsPerTrigger), or raise it"
        )
    if error.code is ErrorCode.INVALID_TRANSACTION_TIMEOUT:
        return (
            f"set kafka.transaction.timeout.ms (now {timeout_ms}) to at most what the brokers allow as "
            "transaction.max.timeout.ms"
        )
    if isinstance(error, RecordTooLarge):
        return "raise kafka.max.request.size of the sink and max.message.bytes of the topic"
    if isinstance(error, UnknownTopic):
        return "create the topic, or the partition that the column partition names"
    if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
        return "a broker cannot write to its disk: see its log, it may be full"
    if isinstance(error, BufferFull):
        return "the brokers are slow or away: kafka.max.block.ms says how long to wait for room"
    if isinstance(error, TimedOut | ConnectionFailed):
        return (
            "see that the brokers are up and kafka.bootstrap.servers is right; kafka.max.block.ms and "
            "kafka.delivery.timeout.ms say how long to try"
        )
    return None
