"""How far a call about many keys has come: which are still open, what each gave, why some failed.

Pure. A broker's code either ends its key or leaves it open to be asked again; ``AdminApiHandler.again`` says
which codes
mean that the wrong broker was asked or the right one was not ready. A topic that is not known gets a few more
tries, since a broker may hear of a new topic a moment after it was made.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

from odradek.client.errors import broker_error
from odradek.model.client_errors import ClientError, PartialFailure, TimedOut
from odradek.model.errors import ErrorCode

if TYPE_CHECKING:
    from odradek.client.network.network_client import NetworkClient

K = TypeVar("K")
V = TypeVar("V")

UNKNOWN_TOPIC_TRIES_MAX: Final = 4
"""With the default backoff these take most of a second."""

CONTROLLER_MOVED: Final = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.THROTTLING_QUOTA_EXCEEDED})
COORDINATOR_MOVED: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
LEADER_MOVED: Final = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)


class ApiError(NamedTuple):
    """A broker's code for one key, and its words if it had any."""

    code: ErrorCode
    message: str | None = None


class LookupResult(NamedTuple, Generic[K]):
    """Which broker serves which keys; and keys that have none, with the reason."""

    nodes: Mapping[int, list[K]]
    refused: Mapping[K, ApiError]


LookupStrategy = Callable[["NetworkClient", Sequence[K], int], Awaitable[LookupResult[K]]]
"""Finds the brokers of keys within so many milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminApiHandler(Generic[K, V]):
    """One API asked about keys: where each is served, what is sent, how an answer is read.

    ``request`` takes the keys and the milliseconds a broker has; where versions differ it gives a
    ``RequestBuilder``, which raises ``UnsupportedVersion`` for what a version cannot say: keys are then asked
    about one by one. ``what`` and ``name`` are the words of errors.
    """

    what: str
    name: Callable[[K], str]
    route: LookupStrategy[K]
    request: Callable[[Sequence[K], int], Any]
    read: Callable[[Sequence[K], Any], Iterable[tuple[K, V | ApiError]]]
    again: frozenset[ErrorCode] = frozenset()


class CallProgress(Generic[K, V]):
    """The keys of one call, from open to done or failed."""

    def __init__(self, work: AdminApiHandler[K, V], keys: Iterable[K]) -> None:
        self._work = work
        self._open = dict.fromkeys(keys)
        self._values: dict[K, V] = {}
        self._errors: dict[K, ClientError] = {}
        self._last: dict[K, ClientError] = {}
        self._tries: dict[K, int] = {}

    @property
    def open(self) -> list[K]:
        return list(self._open)

    def answered(self, keys: Sequence[K], outcomes: Iterable[tuple[K, V | ApiError]]) -> None:
        """Take what a broker said. A key it was asked about and did not name has failed."""
        silent = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "the broker's answer does not name it")
        told: dict[K, V | ApiError] = dict(outcomes)
        for key in keys:
            self._take(key, told.get(key, silent))

    def refused(self, refused: Mapping[K, ApiError]) -> None:
        for key, outcome in refused.items():
            self._take(key, outcome)

    def failed(self, keys: Iterable[K], error: ClientError) -> None:
        """Nobody answered. What may go better next time leaves the keys open."""
        for key in list(keys):
            if error.retriable:
                self._last[key] = error
            else:
                self._end(key, error)

    def give_up(self, after_ms: int) -> None:
        """The time is over."""
        for key in self.open:
            last = self._last.get(key)
            words = f"{self._work.name(key)}: not done within {after_ms} ms"
            code = None if last is None else last.code
            late = TimedOut(words if last is None else f"{words}; the last try: {last}", code=code)
            late.__cause__ = last
            self._end(key, late)

    def result(self) -> dict[K, V]:
        """All values. Raises ``PartialFailure``, or the error itself if nobody answered and all broke
        alike.
        """
        errors = list(self._errors.values())
        if not errors:
            return self._values
        nobody_answered = not self._values and all(error.code is None for error in errors)
        if nobody_answered and len({type(error) for error in errors}) == 1:
            raise errors[0]
        raise PartialFailure(self._work.what, self._errors, self._values)

    def _take(self, key: K, outcome: V | ApiError) -> None:
        if not isinstance(outcome, ApiError):
            self._values[key] = outcome
            self._open.pop(key, None)
            return
        error = broker_error(outcome.code, self._work.name(key), message=outcome.message)
        if self._may_ask_again(key, outcome.code):
            self._last[key] = error
        else:
            self._end(key, error)

    def _may_ask_again(self, key: K, code: ErrorCode) -> bool:
        if code not in self._work.again:
            return False
        if code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return True
        self._tries[key] = self._tries.get(key, 0) + 1
        return self._tries[key] < UNKNOWN_TOPIC_TRIES_MAX

    def _end(self, key: K, error: ClientError) -> None:
        self._errors[key] = error
        self._open.pop(key, None)
