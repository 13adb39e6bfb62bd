"""Where coordinators are: how brokers are asked for them, and what they said, kept until it proves wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from odradek.client.errors import broker_error
from odradek.client.network.node_selection import CoordinatorType
from odradek.model.client_errors import ClientError, ConnectionFailed, TimedOut, UnresolvedBootstrap
from odradek.model.errors import ErrorCode
from odradek.net.api_versions import RequestBuilder
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest

MANY_KEYS_SINCE: Final = 4
_KIND_SINCE: Final = 1


class CoordinatorResult(NamedTuple):
    """What a broker said of one key: where its coordinator is, or why it cannot tell."""

    key: str
    node_id: int
    host: str
    port: int
    error: ErrorCode
    message: str | None


def find_coordinator_request(kind: CoordinatorType, keys: Sequence[str]) -> RequestBuilder:
    """The request for some keys; brokers of old versions are asked for the first alone."""

    def build(version: int) -> Any:
        if version >= MANY_KEYS_SINCE:
            return FindCoordinatorRequest(key_type=kind, coordinator_keys=list(keys))
        return FindCoordinatorRequest(key=keys[0], key_type=kind if version >= _KIND_SINCE else 0)

    return RequestBuilder(FindCoordinatorRequest, build)


def read_find_coordinator(keys: Sequence[str], response: Any) -> list[CoordinatorResult]:
    """One entry for each key that was answered."""
    if response.coordinators:
        return [
            CoordinatorResult(
                one.key, one.node_id, one.host, one.port, ErrorCode(one.error_code), one.error_message
            )
            for one in response.coordinators
        ]
    code = ErrorCode(response.error_code)
    return [
        CoordinatorResult(
            keys[0], response.node_id, response.host, response.port, code, response.error_message
        )
    ]


class CoordinatorLookup:
    """What is known of coordinators.

    ``ask`` sends a request to any broker, ``rest`` waits before a retry, and ``place`` gives the id that a
    coordinator is asked under.
    """

    def __init__(
        self,
        ask: Callable[[Any], Awaitable[Any]],
        rest: Callable[[int], Awaitable[None]],
        place: Callable[[CoordinatorType, CoordinatorResult], int],
    ) -> None:
        self._ask = ask
        self._rest = rest
        self._place = place
        self._known: dict[tuple[CoordinatorType, str], int] = {}

    def get(self, kind: CoordinatorType, key: str) -> int | None:
        return self._known.get((kind, key))

    def node_ids(self) -> Iterable[int]:
        return self._known.values()

    def forget(self, kind: CoordinatorType, key: str) -> None:
        self._known.pop((kind, key), None)

    async def find(self, kind: CoordinatorType, keys: Sequence[str], timeout_ms: int) -> dict[str, int]:
        """The coordinator of each key, asked for until all are known; raises TimedOut, or a broker_error."""
        trouble: ClientError | None = None
        attempt = 0
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while missing := [key for key in keys if (kind, key) not in self._known]:
                    trouble = await self._try(kind, missing)
                    if trouble is not None:
                        await self._rest(attempt)
                        attempt += 1
        except TimeoutError:
            what = f"no coordinator of {', '.join(keys)} within {timeout_ms} ms"
            raise TimedOut(what if trouble is None else f"{what}: {trouble}") from trouble
        return {key: self._known[kind, key] for key in keys}

    async def _try(self, kind: CoordinatorType, keys: Sequence[str]) -> ClientError | None:
        """Ask once, and keep what was found. Gives what may pass, raises what will not."""
        try:
            response = await self._ask(find_coordinator_request(kind, keys))
        except UnresolvedBootstrap:
            raise
        except (ConnectionFailed, TimedOut) as failed:
            return failed
        trouble: ClientError | None = None
        answered = {found.key: found for found in read_find_coordinator(keys, response)}
        for key, found in answered.items():
            if found.error is ErrorCode.NONE:
                self._known[kind, key] = self._place(kind, found)
                continue
            trouble = broker_error(found.error, f"coordinator of {key}", message=found.message)
            if not found.error.retriable:
                raise trouble
        if keys[0] not in answered:
            return ConnectionFailed(f"the answer does not tell of {keys[0]}")
        return trouble
