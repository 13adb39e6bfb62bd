"""Import of what a broker would otherwise import on first use, once it serves.

A start imports what every start needs. The rest must not wait for long: an import fails without a free file
descriptor, and after an upgrade of the installation it would load modules of another version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib import import_module
from typing import Any, Final

from odradek.broker.requests.dispatcher import Handler
from odradek.ports.clock import Clock
from odradek.wire.apis import API_BY_KEY

DELAY_MS: Final = 1_000
"""The first requests after a start come first."""

PAUSE_MS: Final = 10
"""Time for requests between two imports of a few milliseconds each."""

MODULES: Final = (
    "encodings.utf_16_be",  # Java's hash of a string
    "encodings.idna",  # host names
    "ipaddress",
    "odradek.coordinators.groups.shard",
    "odradek.coordinators.transactions.shard",
)


async def import_rest(handlers: Iterable[Handler], clock: Clock) -> None:
    """Import the rest while requests are served."""
    await clock.sleep_ms(DELAY_MS)
    for load in rest(handlers):
        load()
        await clock.sleep_ms(PAUSE_MS)


def rest(handlers: Iterable[Handler]) -> Iterator[Callable[[], Any]]:
    """Yield a function for each module that is imported on first use."""
    for module in MODULES:
        yield partial(import_module, module)
    for handler in handlers:
        yield partial(getattr, API_BY_KEY[handler.api_key], "request")
        yield handler.load
