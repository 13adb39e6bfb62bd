"""Handlers of admin APIs, and the progress of a call: open keys, results and errors.

Pure. An error code either completes its key or leaves it open for a retry; ``AdminApiHandler.retry_codes``
holds the codes of a wrong broker or one that is not ready. UNKNOWN_TOPIC_OR_PARTITION is retried a few times,
because a broker may learn of a new topic a moment after its creation.
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

UNKNOWN_TOPIC_ATTEMPTS_MAX: Final = 4
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
    """A broker's error code and message for one key."""

    code: ErrorCode
    message: str | None = None


class LookupResult(NamedTuple, Generic[K]):
    """Keys by the node that serves them, and errors of the other keys."""

    nodes: Mapping[int, list[K]]
    errors: Mapping[K, ApiError]


LookupStrategy = Callable[["NetworkClient", Sequence[K], int], Awaitable[LookupResult[K]]]
"""Finds the nodes of keys, within a timeout in milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminApiHandler(Generic[K, V]):
    """Requests and responses of one API: node lookup, building requests, reading responses.

    ``build_request`` gets the keys and the request timeout in milliseconds; where versions differ it returns
    a ``RequestBuilder``, which raises ``UnsupportedVersion`` for what a version does not support: then each
    key is sent by itself. ``call`` and ``key_name`` are for error messages.
    """

    call: str
    key_name: Callable[[K], str]
    lookup: LookupStrategy[K]
    build_request: Callable[[Sequence[K], int], Any]
    read_response: Callable[[Sequence[K], Any], Iterable[tuple[K, V | ApiError]]]
    retry_codes: frozenset[ErrorCode] = frozenset()


class CallProgress(Generic[K, V]):
    """The keys of one call, from open to done or failed."""

    def __init__(self, handler: AdminApiHandler[K, V], keys: Iterable[K]) -> None:
        self._handler = handler
        self._open = dict.fromkeys(keys)
        self._results: dict[K, V] = {}
        self._errors: dict[K, ClientError] = {}
        self._last_errors: dict[K, ClientError] = {}
        self._attempts: dict[K, int] = {}

    @property
    def open(self) -> list[K]:
        return list(self._open)

    def on_response(self, keys: Sequence[K], results: Iterable[tuple[K, V | ApiError]]) -> None:
        """Take the results of a response. A key that is missing in it has failed."""
        missing = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "the response has no entry for it")
        by_key: dict[K, V | ApiError] = dict(results)
        for key in keys:
            self._take(key, by_key.get(key, missing))

    def on_lookup_errors(self, errors: Mapping[K, ApiError]) -> None:
        for key, error in errors.items():
            self._take(key, error)

    def on_failure(self, keys: Iterable[K], error: ClientError) -> None:
        """Take the failure of a request. A retriable one leaves the keys open."""
        for key in list(keys):
            if error.retriable:
                self._last_errors[key] = error
            else:
                self._fail(key, error)

    def time_out(self, after_ms: int) -> None:
        """Fail all open keys."""
        for key in self.open:
            last = self._last_errors.get(key)
            text = f"{self._handler.key_name(key)}: not completed within {after_ms} ms"
            code = None if last is None else last.code
            error = TimedOut(text if last is None else f"{text}; last error: {last}", code=code)
            error.__cause__ = last
            self._fail(key, error)

    def result(self) -> dict[K, V]:
        """Return all results; raise ``PartialFailure`` if keys failed.

        If no broker responded and all errors have the same class, the error itself is raised.
        """
        errors = list(self._errors.values())
        if not errors:
            return self._results
        no_response = not self._results and all(error.code is None for error in errors)
        if no_response and len({type(error) for error in errors}) == 1:
            raise errors[0]
        raise PartialFailure(self._handler.call, self._errors, self._results)

    def _take(self, key: K, result: V | ApiError) -> None:
        if not isinstance(result, ApiError):
            self._results[key] = result
            self._open.pop(key, None)
            return
        error = broker_error(result.code, self._handler.key_name(key), message=result.message)
        if self._may_retry(key, result.code):
            self._last_errors[key] = error
        else:
            self._fail(key, error)

    def _may_retry(self, key: K, code: ErrorCode) -> bool:
        if code not in self._handler.retry_codes:
            return False
        if code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return True
        self._attempts[key] = self._attempts.get(key, 0) + 1
        return self._attempts[key] < UNKNOWN_TOPIC_ATTEMPTS_MAX

    def _fail(self, key: K, error: ClientError) -> None:
        self._errors[key] = error
        self._open.pop(key, None)
