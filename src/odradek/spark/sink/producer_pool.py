"""Pool of this process's transactional producers, reused from micro-batch to micro-batch.

A producer is in the pool only while its last transaction is known to be committed; a writer takes it out. The
pool is bounded; the least recently used producer is closed first.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from odradek.client.blocking.producer import Producer
from odradek.model.client_errors import ClientError, FatalProducerError
from odradek.spark.options.sink_options import SinkOptions
from odradek.spark.sink.markers import Marker, MarkerKey

PRODUCERS_MAX: Final = 4
_CLOSE_TIMEOUT_S: Final = 2.0

Identity = frozenset[tuple[str, str]]


@dataclass(slots=True)
class PooledProducer:
    """A producer with a partition's transactional id, and the last marker it has committed."""

    producer: Producer
    identity: Identity
    marker: Marker = field(default_factory=lambda: Marker(0))


@dataclass(slots=True)
class ProducerPool:
    """Producers by settings, including the transactional id; least recently used first."""

    producers_max: int = PRODUCERS_MAX
    _process_id: int = field(default_factory=os.getpid)
    _producers: OrderedDict[Identity, PooledProducer] = field(default_factory=OrderedDict)
    _parent_producers: list[PooledProducer] = field(default_factory=list)

    def take(self, options: SinkOptions, key: MarkerKey) -> PooledProducer | None:
        """Remove the producer that wrote this partition before, and return it."""
        self._reset_after_fork()
        return self._producers.pop(_identity(options, key), None)

    def create(self, options: SinkOptions, key: MarkerKey) -> PooledProducer:
        """Return a new producer, which is not in the pool yet."""
        identity = _identity(options, key)
        return PooledProducer(Producer(dict(identity)), identity)

    def put(self, pooled: PooledProducer) -> None:
        """Add a producer whose transaction is committed."""
        self._reset_after_fork()
        self._producers[pooled.identity] = pooled
        while len(self._producers) > self.producers_max:
            _, oldest = self._producers.popitem(last=False)
            self.discard(oldest)

    def discard(self, pooled: PooledProducer) -> None:
        """Close a producer without pending work."""
        with suppress(ClientError):
            pooled.producer.close(_CLOSE_TIMEOUT_S)

    def close_with_open_transaction(self, pooled: PooledProducer) -> None:
        """Close a producer and leave its transaction open, for the driver to end."""
        with suppress(ClientError):
            pooled.producer.close(0)

    def abort(self, pooled: PooledProducer, failure: BaseException) -> None:
        """Abort a failed transaction, and close the producer.

        If brokers are unreachable, the next owner of the transactional id or the timeout aborts it.
        """
        if not isinstance(failure, FatalProducerError):
            with suppress(ClientError):
                pooled.producer.abort_transaction()
        self.discard(pooled)

    def clear(self) -> None:
        """Close all producers."""
        while self._producers:
            self.discard(self._producers.popitem()[1])

    def _reset_after_fork(self) -> None:
        """In a forked child, start with an empty pool: the producers and their threads are the parent's."""
        if self._process_id != os.getpid():
            self._parent_producers.extend(self._producers.values())
            self._producers = OrderedDict()
            self._process_id = os.getpid()


def _identity(options: SinkOptions, key: MarkerKey) -> Identity:
    name = key.transactional_id(options.transactional_id_prefix)
    return frozenset({**options.producer_settings, "transactional.id": name}.items())


producer_pool: Final = ProducerPool()
"""The pool of this process: a Spark worker runs one task at a time."""
