"""Callbacks of the application, and the rebalance listener among them."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

from odradek.client.consumer.rebalance_listener import AnyRebalanceListener
from odradek.model.ids import TopicPartition
from odradek.telemetry import events

_log: Final = events.logger("consumer")


OnCaller = Callable[..., Awaitable[Any]]
"""Calls a function with its arguments in the thread of the application."""


async def call_directly(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function on the event loop, where an asyncio application runs."""
    return function(*args)


class Callbacks:
    """Calls functions of the application in its thread, and awaits coroutines on its loop."""

    def __init__(self, on_caller: OnCaller = call_directly) -> None:
        self._on_caller = on_caller

    async def call(self, function: Callable[..., Any], *args: Any) -> None:
        result = await self._on_caller(function, *args)
        if inspect.isawaitable(result):
            await result


class RebalanceListenerInvoker:
    """Calls the rebalance listener; keeps what it raises until the rebalance is complete."""

    def __init__(self, group_id: str, callbacks: Callbacks) -> None:
        self._callbacks = callbacks
        self._log = _log.bind(group=group_id)
        self._failure: BaseException | None = None

    async def revoked(
        self, listener: AnyRebalanceListener | None, partitions: Iterable[TopicPartition]
    ) -> None:
        await self._call("partitions_revoked", listener, ("on_partitions_revoked",), partitions)

    async def assigned(
        self, listener: AnyRebalanceListener | None, partitions: Iterable[TopicPartition]
    ) -> None:
        await self._call("partitions_assigned", listener, ("on_partitions_assigned",), partitions)

    async def lost(self, listener: AnyRebalanceListener | None, partitions: Iterable[TopicPartition]) -> None:
        # A listener without on_partitions_lost gets on_partitions_revoked.
        names = ("on_partitions_lost", "on_partitions_revoked")
        await self._call("partitions_lost", listener, names, partitions)

    def record_failure(self, failure: BaseException) -> None:
        """Keep a failure for ``raise_failure``; the first one wins."""
        if self._failure is None:
            self._failure = failure

    def raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    async def _call(
        self,
        event: str,
        listener: AnyRebalanceListener | None,
        names: tuple[str, ...],
        partitions: Iterable[TopicPartition],
    ) -> None:
        ordered = sorted(partitions)
        self._log.info(event, partitions=" ".join(map(str, ordered)))
        function = next((method for name in names if (method := getattr(listener, name, None))), None)
        if function is None:
            return
        try:
            await self._callbacks.call(function, ordered)
        except Exception as failure:  # noqa: BLE001 - an application's listener may raise anything
            self._log.failure("rebalance_listener_failed", failure, callback=event)
            self.record_failure(failure)
