"""Lookup of group and transaction coordinators with FindCoordinator, cached until marked unknown."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Final, NamedTuple

from odradek.client.errors import broker_error
from odradek.client.network.node_selection import CoordinatorType
from odradek.model.client_errors import (
    ClientError,
    ConnectionFailed,
    TimedOut,
    UnresolvedBootstrap,
    caused_by,
)
from odradek.model.errors import ErrorCode
from odradek.net.api_versions import RequestBuilder
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

BATCHED_KEYS_SINCE: Final = 4
_KEY_TYPE_SINCE: Final = 1


class CoordinatorResult(NamedTuple):
    """The coordinator of one key, or the error of its lookup."""

    key: str
    node_id: int
    host: str
    port: int
    error: ErrorCode
    message: str | None


def find_coordinator_request(key_type: CoordinatorType, keys: Sequence[str]) -> RequestBuilder:
    """Return the request for these keys; old versions take the first key only."""

    def build(version: int) -> FindCoordinatorRequest:
        if version >= BATCHED_KEYS_SINCE:
            return FindCoordinatorRequest(key_type=key_type, coordinator_keys=list(keys))
        return FindCoordinatorRequest(key=keys[0], key_type=key_type if version >= _KEY_TYPE_SINCE else 0)

    return RequestBuilder(FindCoordinatorRequest, build)


def read_find_coordinator(keys: Sequence[str], response: FindCoordinatorResponse) -> list[CoordinatorResult]:
    """Return one result for each key in the response."""
    if response.coordinators:
        return [
            CoordinatorResult(
                entry.key,
                entry.node_id,
                entry.host,
                entry.port,
                ErrorCode(entry.error_code),
                entry.error_message,
            )
            for entry in response.coordinators
        ]
    code = ErrorCode(response.error_code)
    return [
        CoordinatorResult(
            keys[0], response.node_id, response.host, response.port, code, response.error_message
        )
    ]


class CoordinatorLookup:
    """Cache of coordinators.

    ``send`` sends a request to any broker, but avoids the given ones; ``back_off`` waits before a retry, and
    ``connect`` returns the connection id of a coordinator.

    Lookups avoid the last known coordinator: a broker that has lost its ZooKeeper session without noticing
    still names itself.
    """

    def __init__(
        self,
        send: Callable[[RequestBuilder, Collection[int]], Awaitable[FindCoordinatorResponse]],
        back_off: Callable[[int], Awaitable[None]],
        connect: Callable[[CoordinatorType, CoordinatorResult], int],
    ) -> None:
        self._send = send
        self._back_off = back_off
        self._connect = connect
        self._known: dict[tuple[CoordinatorType, str], int] = {}
        self._brokers: dict[tuple[CoordinatorType, str], int] = {}
        """Broker id of the last coordinator of each key, known or marked unknown."""

    def get(self, key_type: CoordinatorType, key: str) -> int | None:
        return self._known.get((key_type, key))

    def node_ids(self) -> Iterable[int]:
        return self._known.values()

    def mark_unknown(self, key_type: CoordinatorType, key: str) -> None:
        self._known.pop((key_type, key), None)

    async def find(self, key_type: CoordinatorType, keys: Sequence[str], timeout_ms: int) -> dict[str, int]:
        """Return the coordinator of each key; raise TimedOut, or a non-retriable broker error."""
        last_error: ClientError | None = None
        attempt = 0
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while missing := [key for key in keys if (key_type, key) not in self._known]:
                    last_error = await self._try(key_type, missing)
                    if last_error is not None:
                        await self._back_off(attempt)
                        attempt += 1
        except TimeoutError:
            what = f"coordinator of {', '.join(keys)} not found within {timeout_ms} ms"
            late = TimedOut(what if last_error is None else f"{what}: {last_error}")
            raise caused_by(late, last_error) from last_error
        return {key: self._known[key_type, key] for key in keys}

    async def _try(self, key_type: CoordinatorType, keys: Sequence[str]) -> ClientError | None:
        """Send one request and cache its results. Return a retriable error, raise any other."""
        try:
            former = {self._brokers[key_type, key] for key in keys if (key_type, key) in self._brokers}
            response = await self._send(find_coordinator_request(key_type, keys), former)
        except UnresolvedBootstrap:
            raise
        except (ConnectionFailed, TimedOut) as failure:
            return failure
        error: ClientError | None = None
        results = {result.key: result for result in read_find_coordinator(keys, response)}
        for key, result in results.items():
            if result.error is ErrorCode.NONE:
                self._known[key_type, key] = self._connect(key_type, result)
                self._brokers[key_type, key] = result.node_id
                continue
            error = broker_error(result.error, f"coordinator of {key}", message=result.message)
            if not result.error.retriable:
                raise error
        if keys[0] not in results:
            return ConnectionFailed(f"FindCoordinator response has no entry for key {keys[0]}")
        return error
