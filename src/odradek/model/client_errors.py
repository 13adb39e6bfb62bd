"""Exceptions of the clients.

Every failure is a ``ClientError``. Its message says what failed and where; ``code`` is the broker's error
code, if any, ``broker`` the broker that the request was sent to, and ``retriable`` whether the same call may
succeed later. Subclasses exist for failures that an application may handle differently::

    ClientError
    ├── RequestRefused           the broker returned an error code
    │   ├── AuthenticationFailed
    │   ├── AuthorizationFailed
    │   ├── UnknownTopic
    │   ├── RecordTooLarge       rejected by the broker, or before it was sent
    │   ├── CommitFailed         the group has rebalanced without this member
    │   ├── ProducerFenced       fatal: another producer has the transactional id
    │   └── FatalProducerError   fatal: the producer must be replaced
    ├── PartialFailure           a call on several items failed for some: errors and results by item
    ├── ConnectionFailed         a broker could not be reached, or the connection was lost
    │   └── UnresolvedBootstrap  no host name in bootstrap.servers resolves
    ├── TimedOut                 no response, metadata or buffer space within the timeout
    │   └── BufferFull
    ├── UnsupportedVersion       the broker does not support the required API version
    ├── SerializationFailed      a serializer or deserializer raised
    ├── NoOffset                 no position, and auto.offset.reset is none
    │   └── OffsetOutOfRange
    │       └── LogTruncation    the log was truncated below the position
    ├── RecordCorrupt            fetched bytes are not valid records
    ├── TransactionAborted       the transaction of these records was aborted
    ├── InvalidState             the call is not allowed in the current state
    │   ├── ConcurrentUse        a consumer used by two threads or tasks
    │   └── ClientClosed
    └── WakeupError              ``wakeup()`` interrupted the call
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition

E = TypeVar("E", bound=BaseException)

# Number of failures in the message of ``PartialFailure``; ``errors`` has all.
_MESSAGES_MAX: Final = 10


class ClientError(Exception):
    """Base of all client exceptions."""

    default_retriable = False

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
        return self.default_retriable if self.code is None else self.code.retriable


class RequestRefused(ClientError):
    """Raised when a broker returns an error code."""


class AuthenticationFailed(RequestRefused):
    """Raised when the broker rejects the client's credentials, or TLS cannot be established."""


class AuthorizationFailed(RequestRefused):
    """Raised when the client is not authorized for a request."""


class UnknownTopic(RequestRefused):
    """Raised for a topic or partition that does not exist."""


class RecordTooLarge(RequestRefused):
    """Raised for a record above the client's or the broker's size limit."""


class CommitFailed(RequestRefused):
    """Raised when offsets cannot be committed because the partitions were reassigned."""


class FatalProducerError(RequestRefused):
    """Raised when a producer cannot continue; close it and create a new one."""


class ProducerFenced(FatalProducerError):
    """Raised when another producer with the same transactional id has taken over."""


class ConnectionFailed(ClientError):
    """Raised when a broker cannot be reached, or the connection is lost before the response."""

    default_retriable = True


class UnresolvedBootstrap(ConnectionFailed):
    """Raised when no host name in ``bootstrap.servers`` resolves."""

    default_retriable = False


class TimedOut(ClientError):
    """Raised when a call does not complete within its timeout."""

    default_retriable = True


class BufferFull(TimedOut):
    """Raised when the buffer has no space for a record within ``max.block.ms``."""


class UnsupportedVersion(ClientError):
    """Raised when the broker does not support the API version that a request needs."""


class SerializationFailed(ClientError):
    """Raised when a serializer or deserializer fails; its exception is the cause."""


class NoOffset(ClientError):
    """Raised when a partition has no position and ``auto.offset.reset`` is none."""


class OffsetOutOfRange(NoOffset):
    """Raised when a position is out of range and ``auto.offset.reset`` is none."""


class LogTruncation(OffsetOutOfRange):
    """Raised when a log was truncated below a position and ``auto.offset.reset`` is none.

    ``divergent_offsets`` has, by partition, the first offset whose record may have changed, to ``seek`` to. A
    partition is missing there if its leader does not know the epoch of the last record.
    """

    def __init__(self, message: str, divergent_offsets: Mapping[TopicPartition, int] | None = None) -> None:
        super().__init__(message)
        self.divergent_offsets = dict(divergent_offsets or {})


class RecordCorrupt(ClientError):
    """Raised when fetched bytes are not valid records."""


class TransactionAborted(ClientError):
    """Raised for a record that was not written because its transaction was aborted."""


class InvalidState(ClientError):
    """Raised for a call that is not allowed in the client's current state."""


class ConcurrentUse(InvalidState):
    """Raised when a consumer is used by two threads or tasks at once."""


class ClientClosed(InvalidState):
    """Raised when a closed client is used."""


class WakeupError(ClientError):
    """Raised by a call that ``wakeup()`` interrupted."""


def caused_by(error: E, cause: BaseException | None) -> E:
    """Return the error with its cause, which ``raise … from`` does not set in compiled modules."""
    error.__cause__ = cause
    return error


class PartialFailure(ClientError):
    """Raised when a call on several items fails for some of them.

    ``errors`` has the exceptions by item; ``results`` has the results of the other items. ``code`` is set
    if all failures have the same code.
    """

    def __init__(
        self, call: str, errors: Mapping[Any, ClientError], results: Mapping[Any, Any] | None = None
    ) -> None:
        codes = {error.code for error in errors.values()}
        super().__init__(
            _summarise(call, list(errors.values()), len(results or {})),
            code=codes.pop() if len(codes) == 1 else None,
            retriable=all(error.retriable for error in errors.values()),
        )
        self.errors: Mapping[Any, ClientError] = dict(errors)
        self.results: Mapping[Any, Any] = dict(results or {})


def _summarise(call: str, errors: list[ClientError], succeeded: int) -> str:
    if len(errors) == 1 and not succeeded:
        return f"{call}: {errors[0]}"
    messages = [str(error) for error in errors[:_MESSAGES_MAX]]
    if len(errors) > len(messages):
        messages.append(f"and {len(errors) - len(messages)} more")
    return f"{call}: {len(errors)} of {len(errors) + succeeded} failed: {'; '.join(messages)}"
