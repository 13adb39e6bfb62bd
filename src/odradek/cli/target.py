"""Which cluster a command talks to: the options all commands have, and clients made from them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from odradek.cli.connection_failure import ConnectionFailureHandler
from odradek.cli.errors import CommandFailed, usage_error

if TYPE_CHECKING:
    from odradek.client.blocking.admin import Admin
    from odradek.client.blocking.consumer import Consumer
    from odradek.client.blocking.producer import Producer
    from odradek.config.client.definition import ClientConfigDef

VARIABLE: Final = "ODRADEK_BOOTSTRAP"
DEFAULT: Final = "127.0.0.1:9092"
FIRST_ANSWER_S: Final = 4.0
"""How long a command waits for the first answer before it says that there is no broker."""

Bootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-server",
        "-b",
        metavar="HOST:PORT",
        help=f"Bootstrap servers (default: ${VARIABLE}, or {DEFAULT}).",
    ),
]
Extra = Annotated[
    list[str] | None,
    typer.Option(
        "-X", metavar="NAME=VALUE", help="Set an option of the client, by Kafka's name. May be repeated."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


class Given(NamedTuple):
    """Options that stood before the command."""

    bootstrap: str | None = None
    extra: tuple[str, ...] = ()


_NOTHING: Final = Given()
_GIVEN: ContextVar[Given] = ContextVar("given", default=_NOTHING)


def remember(bootstrap: str | None, extra: Iterable[str] | None) -> None:
    """Keep the options that stood before the command, for the command."""
    _GIVEN.set(Given(bootstrap, tuple(extra or ())))


class Target:
    """The cluster that the options name."""

    def __init__(self, bootstrap: str | None, extra: Iterable[str] | None) -> None:
        outer = _GIVEN.get()
        self.bootstrap = bootstrap or outer.bootstrap or os.environ.get(VARIABLE) or DEFAULT
        self._options = pairs((*outer.extra, *(extra or ())), "-X")

    @contextmanager
    def admin(self) -> Iterator[Admin]:
        """An admin client of a cluster that has answered."""
        from odradek import Admin
        from odradek.config.client import ADMIN

        known = {name: value for name, value in self._options.items() if name in ADMIN.by_name}
        with Admin({"bootstrap.servers": self.bootstrap, **known}) as admin:
            self._check(admin)
            yield admin

    @contextmanager
    def only_admin(self) -> Iterator[Admin]:
        """The same for commands with no other client: options that an admin client has not are wrong use."""
        from odradek import Admin

        with Admin({"bootstrap.servers": self.bootstrap, **self._options}) as admin:
            self._check(admin)
            yield admin

    def producer(self, *, shared: bool = False, **options: Any) -> Producer:
        """A producer; if ``-X`` is ``shared`` with a consumer, options that only that has are left to it."""
        from odradek import Producer
        from odradek.config.client import CONSUMER, PRODUCER

        given = self._known_to(PRODUCER, CONSUMER) if shared else self._options
        return Producer({"bootstrap.servers": self.bootstrap, **_dotted(options), **given})

    def consumer(self, *, shared: bool = False, **options: Any) -> Consumer:
        """A consumer; the same the other way round."""
        from odradek import Consumer
        from odradek.config.client import CONSUMER, PRODUCER

        given = self._known_to(CONSUMER, PRODUCER) if shared else self._options
        return Consumer({"bootstrap.servers": self.bootstrap, **_dotted(options), **given})

    def _known_to(self, table: ClientConfigDef, other: ClientConfigDef) -> dict[str, str]:
        return {
            name: value
            for name, value in self._options.items()
            if name in table.by_name or name not in other.by_name
        }

    def _check(self, admin: Admin) -> None:
        from odradek.model.client_errors import ConnectionFailed, TimedOut, UnresolvedBootstrap

        first = ConnectionFailureHandler(f"trying again for {FIRST_ANSWER_S:.0f} s")
        try:
            with first.told():
                admin.describe_cluster(timeout_s=FIRST_ANSWER_S)
        except UnresolvedBootstrap as unresolved:
            raise CommandFailed(f"{unresolved}. -b HOST:PORT names another broker") from unresolved
        except (ConnectionFailed, TimedOut) as failed:
            what = f"no broker answers at {self.bootstrap}"
            raise CommandFailed(
                f"{what if first.reason is None else f'{what}: {first.reason}'}. "
                "Is one running there (`odradek serve`)? -b HOST:PORT names another"
            ) from failed


def _dotted(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name.replace("_", "."): value for name, value in options.items() if value is not None}


def pairs(given: Iterable[str], option: str) -> dict[str, str]:
    """NAME=VALUE texts as a mapping; anything else is wrong use."""
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            usage_error(f"{option} {text!r}: give it as NAME=VALUE")
        found[name.strip()] = value
    return found
