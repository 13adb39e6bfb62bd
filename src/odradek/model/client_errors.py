"""What a client tells its user when something cannot be done.

Every failure is a ``ClientError``. Its words say what was tried and where; ``code`` is the broker's error if
a broker answered with one, ``broker`` the one that was asked, and ``retriable`` says whether the same call
may succeed later. Subclasses exist where a program has a reason to treat a failure in a way of its own::

    ClientError
    ├── RequestRefused           a broker answered with an error code
    │   ├── AuthenticationFailed
    │   ├── AuthorizationFailed
    │   ├── UnknownTopic
    │   ├── RecordTooLarge       refused by the broker, or before it was sent
    │   ├── CommitFailed         the group went on without this member
    │   ├── ProducerFenced       fatal: another producer has the transactional id
    │   └── FatalProducerError   fatal: only a new producer can go on
    ├── PartialFailure               a call about many things: which failed and why, and what the others gave
    ├── ConnectionFailed         a broker could not be reached, or went away
    │   └── UnresolvedBootstrap  no host name in bootstrap.servers exists
    ├── TimedOut                 no answer, no metadata or no room within the time given
    │   └── BufferFull
    ├── UnsupportedVersion       the broker does not know what was asked
    ├── SerializationFailed      a serializer or deserializer raised
    ├── NoOffset                 no position, and no policy to choose one
    │   └── OffsetOutOfRange
    ├── RecordCorrupt            fetched bytes that are no records
    ├── TransactionAborted       the records of an aborted transaction
    ├── InvalidState             a call that makes no sense now
    │   ├── ConcurrentUse        two threads, or tasks, in one consumer
    │   └── ClientClosed
    └── WakeupError                    ``wakeup()`` ended a wait
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from odradek.model.errors import ErrorCode

# Failures that the words of ``PartialFailure`` spell out; ``errors`` has them all.
_SPELLED_OUT_MAX: Final = 10


class ClientError(Exception):
    """Something a client was asked to do did not happen."""

    retriable_by_nature = False

    def __init__(
        self,
        message: str,
        *,
        code: ErrorCode | None = None,
        broker: str | None = None,
        retriable: bool | None = None,
    ) -> None:
        super().__init__(message if broker is None else f"{message} (broker {broker})")
        self.code = code
        self.broker = broker
        self.retriable = self._is_retriable() if retriable is None else retriable

    def _is_retriable(self) -> bool:
        return self.retriable_by_nature if self.code is None else self.code.retriable


class RequestRefused(ClientError):
    """A broker answered with an error code."""


class AuthenticationFailed(RequestRefused):
    """The broker does not believe who this client says it is."""


class AuthorizationFailed(RequestRefused):
    """The broker knows this client and does not allow it what it asked for."""


class UnknownTopic(RequestRefused):
    """The cluster has no such topic or partition."""


class RecordTooLarge(RequestRefused):
    """A record is larger than the client's or the broker's limit."""


class CommitFailed(RequestRefused):
    """Offsets were not committed: the group has given the partitions to others."""


class FatalProducerError(RequestRefused):
    """The producer cannot go on; close it and make a new one."""


class ProducerFenced(FatalProducerError):
    """Another producer with the same transactional id has taken over."""


class ConnectionFailed(ClientError):
    """A broker could not be reached, or the connection was lost before it answered."""

    retriable_by_nature = True


class UnresolvedBootstrap(ConnectionFailed):
    """No host name in ``bootstrap.servers`` resolves to an address."""

    retriable_by_nature = False


class TimedOut(ClientError):
    """The time given was over before the thing asked for had happened."""

    retriable_by_nature = True


class BufferFull(TimedOut):
    """No room for a record within ``max.block.ms``."""


class UnsupportedVersion(ClientError):
    """The broker does not speak a version of the request that this client needs."""


class SerializationFailed(ClientError):
    """A serializer or deserializer raised; its exception is the cause."""


class NoOffset(ClientError):
    """A partition has no position, and ``auto.offset.reset`` is none."""


class OffsetOutOfRange(NoOffset):
    """A position lies outside the log, and ``auto.offset.reset`` is none."""


class RecordCorrupt(ClientError):
    """Fetched bytes are no valid records."""


class TransactionAborted(ClientError):
    """A record was not written because its transaction was aborted."""


class InvalidState(ClientError):
    """The call makes no sense in the client's present state."""


class ConcurrentUse(InvalidState):
    """A consumer is used by two threads, or tasks, at once."""


class ClientClosed(InvalidState):
    """The client has been closed."""


class WakeupError(ClientError):
    """``wakeup()`` ended this call."""


class PartialFailure(ClientError):
    """A call about many things failed for some of them.

    ``errors`` says why, by the thing that failed; ``results`` holds what the others gave. If all failed in
    the same way, ``code`` is the code they share.
    """

    def __init__(
        self, what: str, errors: Mapping[Any, ClientError], results: Mapping[Any, Any] | None = None
    ) -> None:
        codes = {error.code for error in errors.values()}
        super().__init__(
            _spelled_out(what, list(errors.values()), len(results or {})),
            code=codes.pop() if len(codes) == 1 else None,
            retriable=all(error.retriable for error in errors.values()),
        )
        self.errors: Mapping[Any, ClientError] = dict(errors)
        self.results: Mapping[Any, Any] = dict(results or {})


def _spelled_out(what: str, errors: list[ClientError], succeeded: int) -> str:
    if len(errors) == 1 and not succeeded:
        return f"{what}: {errors[0]}"
    words = [str(error) for error in errors[:_SPELLED_OUT_MAX]]
    if len(errors) > len(words):
        words.append(f"and {len(errors) - len(words)} more")
    return f"{what}: {len(errors)} of {len(errors) + succeeded} failed: {'; '.join(words)}"
