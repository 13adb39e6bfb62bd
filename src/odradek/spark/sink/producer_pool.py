"""Transactional producers of this process, kept from micro-batch to micro-batch.

A producer is in the pool only while its last transaction is committed and nothing of it is doubtful; whoever
writes with it takes it out. A process keeps a few, and closes the one that was not used for longest.
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
class Held:
    """A producer of a partition's transactional id, and the marker that it knows to be committed."""

    producer: Producer
    identity: Identity
    marker: Marker = field(default_factory=lambda: Marker(0))


@dataclass(slots=True)
class ProducerPool:
    """By settings, the transactional id among them; the one that was not used for longest comes first."""

    producers_max: int = PRODUCERS_MAX
    _process_id: int = field(default_factory=os.getpid)
    _kept: OrderedDict[Identity, Held] = field(default_factory=OrderedDict)
    _left_to_parent: list[Held] = field(default_factory=list)

    def take(self, options: SinkOptions, key: MarkerKey) -> Held | None:
        """The producer that wrote this partition before, no longer in the pool."""
        self._leave_to_parent()
        return self._kept.pop(_identity(options, key), None)

    def made(self, options: SinkOptions, key: MarkerKey) -> Held:
        """A new producer, not yet in the pool."""
        identity = _identity(options, key)
        return Held(Producer(dict(identity)), identity)

    def put(self, held: Held) -> None:
        """Keep a producer whose transaction has ended well."""
        self._leave_to_parent()
        self._kept[held.identity] = held
        while len(self._kept) > self.producers_max:
            _, oldest = self._kept.popitem(last=False)
            self.discard(oldest)

    def discard(self, held: Held) -> None:
        """Close a producer; it has nothing that anybody waits for."""
        with suppress(ClientError):
            held.producer.close(_CLOSE_TIMEOUT_S)

    def leave_open(self, held: Held) -> None:
        """Close a producer and leave its transaction as it is, for somebody else to end."""
        with suppress(ClientError):
            held.producer.close(0)

    def abort(self, held: Held, failure: BaseException) -> None:
        """End a transaction that failed, and the producer with it.

        What cannot be aborted, because brokers are away, the next owner of the id or the timeout ends.
        """
        if not isinstance(failure, FatalProducerError):
            with suppress(ClientError):
                held.producer.abort_transaction()
        self.discard(held)

    def clear(self) -> None:
        """Close all producers."""
        while self._kept:
            self.discard(self._kept.popitem()[1])

    def _leave_to_parent(self) -> None:
        """In a forked child, begin anew: the producers and their threads are the parent's."""
        if self._process_id != os.getpid():
            self._left_to_parent.extend(self._kept.values())
            self._kept = OrderedDict()
            self._process_id = os.getpid()


def _identity(options: SinkOptions, key: MarkerKey) -> Identity:
    name = key.transactional_id(options.transactional_id_prefix)
    return frozenset({**options.producer_settings, "transactional.id": name}.items())


kept_producers: Final = ProducerPool()
"""Those of this process: a worker of Spark runs one task at a time."""
