"""A response whose callback runs in the turn of the event loop in which it was received.

The callback of a future runs one turn later. For a client that sends one record and waits for it, each turn
costs as much as reading the response.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any


class PromptResponse:
    """Takes the place of a future with one callback.

    The connection calls ``run_callback`` once it has dealt with all responses that it received; the callback
    may send. Errors take the longer way: they occur in the middle of a send or a close.
    """

    __slots__ = ("_callback", "_error", "_is_done", "_loop", "_result")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._callback: Callable[[Any], object] | None = None
        self._result: Any = None
        self._error: BaseException | None = None
        self._is_done = False

    def add_done_callback(self, callback: Callable[[Any], object]) -> None:
        """Set the callback, which is called with this object; there must be no other."""
        assert self._callback is None, "a response has one callback"
        self._callback = callback
        if self._is_done:
            self._loop.call_soon(self.run_callback)

    def done(self) -> bool:
        return self._is_done

    def result(self) -> Any:
        assert self._error is None
        return self._result

    def exception(self) -> BaseException | None:
        return self._error

    def set_result(self, result: Any) -> None:
        """Complete without calling the callback, which ``run_callback`` does."""
        self._result = result
        self._is_done = True

    def set_exception(self, error: BaseException) -> None:
        self._error = error
        self._is_done = True
        if self._callback is not None:
            self._loop.call_soon(self.run_callback)

    def run_callback(self) -> None:
        """Call the callback once. Its failure is reported as the event loop reports those of futures."""
        callback, self._callback = self._callback, None
        if callback is None:
            return
        try:
            callback(self)
        except Exception as error:  # noqa: BLE001 - it must not end the connection
            self._loop.call_exception_handler(
                {"message": "the callback of a response failed", "exception": error}
            )
