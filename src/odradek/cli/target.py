"""The target cluster of a command: the options common to all commands, and clients made from them."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from odradek.cli.errors import CommandFailed, print_error, usage_error

if TYPE_CHECKING:
    from odradek.client.blocking.admin import Admin
    from odradek.client.blocking.consumer import Consumer
    from odradek.client.blocking.producer import Producer
    from odradek.config.client.definition import ClientConfigDef

VARIABLE: Final = "ODRADEK_BOOTSTRAP"
CONFIG_VARIABLE: Final = "ODRADEK_CLIENT_CONFIG"
CONFIG_CHARACTERS_MAX: Final = 1 << 20
DEFAULT: Final = "127.0.0.1:9092"
FIRST_RESPONSE_S: Final = 4.0
"""Time a command waits for the first response before it fails."""

_NET_LOGGER: Final = "odradek.net"
_CONNECTION_FAILED: Final = "net.connection_failed"

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
        "-X",
        metavar="NAME=VALUE",
        help="Set a client option, by its Kafka name; @FILE sets those of a properties file (default: "
        "$ODRADEK_CLIENT_CONFIG). May be repeated.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


class GlobalOptions(NamedTuple):
    """Options before the command."""

    bootstrap: str | None = None
    extra: tuple[str, ...] = ()


_DEFAULTS: Final = GlobalOptions()
_GLOBAL_OPTIONS: ContextVar[GlobalOptions] = ContextVar("global_options", default=_DEFAULTS)


def set_global_options(bootstrap: str | None, extra: Iterable[str] | None) -> None:
    """Store the options before the command for the command."""
    _GLOBAL_OPTIONS.set(GlobalOptions(bootstrap, tuple(extra or ())))


class Target:
    """The cluster that the options select."""

    def __init__(self, bootstrap: str | None, extra: Iterable[str] | None) -> None:
        outer = _GLOBAL_OPTIONS.get()
        self.bootstrap = bootstrap or outer.bootstrap or os.environ.get(VARIABLE) or DEFAULT
        self._options = _client_options((*outer.extra, *(extra or ())))

    @contextmanager
    def admin(self) -> Iterator[Admin]:
        """Open an admin client, and check that a broker responds."""
        from odradek import Admin
        from odradek.config.client import ADMIN

        known = {name: value for name, value in self._options.items() if name in ADMIN.by_name}
        with Admin({"bootstrap.servers": self.bootstrap, **known}) as admin:
            self._check(admin)
            yield admin

    @contextmanager
    def only_admin(self) -> Iterator[Admin]:
        """Open an admin client for commands without another client: unknown options are usage errors."""
        from odradek import Admin

        with Admin({"bootstrap.servers": self.bootstrap, **self._options}) as admin:
            self._check(admin)
            yield admin

    def producer(self, *, shared: bool = False, **options: Any) -> Producer:
        """Create a producer; if ``-X`` is ``shared`` with a consumer, consumer-only options are dropped."""
        from odradek import Producer
        from odradek.config.client import CONSUMER, PRODUCER

        extra = self._options_for(PRODUCER, CONSUMER) if shared else self._options
        return Producer({"bootstrap.servers": self.bootstrap, **_dotted(options), **extra})

    def consumer(self, *, shared: bool = False, **options: Any) -> Consumer:
        """Create a consumer; if ``-X`` is ``shared`` with a producer, producer-only options are dropped."""
        from odradek import Consumer
        from odradek.config.client import CONSUMER, PRODUCER

        extra = self._options_for(CONSUMER, PRODUCER) if shared else self._options
        return Consumer({"bootstrap.servers": self.bootstrap, **_dotted(options), **extra})

    def _options_for(self, table: ClientConfigDef, other: ClientConfigDef) -> dict[str, str]:
        return {
            name: value
            for name, value in self._options.items()
            if name in table.by_name or name not in other.by_name
        }

    def _check(self, admin: Admin) -> None:
        from odradek.model.client_errors import ConnectionFailed, TimedOut, UnresolvedBootstrap

        failure = ConnectionFailureHandler(f"retrying for {FIRST_RESPONSE_S:.0f} s")
        try:
            with failure.installed():
                admin.describe_cluster(timeout_s=FIRST_RESPONSE_S)
        except UnresolvedBootstrap as error:
            raise CommandFailed(f"{error}. Select another broker with -b HOST:PORT") from error
        except (ConnectionFailed, TimedOut) as error:
            message = f"no response from {self.bootstrap}"
            raise CommandFailed(
                f"{message if failure.reason is None else f'{message}: {failure.reason}'}. "
                "Start a broker with `odradek serve`, or select another with -b HOST:PORT"
            ) from error


class ConnectionFailureHandler(logging.Handler):
    """Prints the first failed connection to stderr, and keeps its ``reason``.

    A host name that does not resolve is not printed: an error follows at once.
    """

    def __init__(self, action: str) -> None:
        super().__init__(logging.WARNING)
        self.reason: str | None = None
        self._action = action

    @contextmanager
    def installed(self) -> Iterator[None]:
        log = logging.getLogger(_NET_LOGGER)
        log.addHandler(self)
        try:
            yield
        finally:
            log.removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        fields = getattr(record, "fields", {})
        if self.reason is not None or getattr(record, "event", None) != _CONNECTION_FAILED:
            return
        broker = fields["broker"]
        reason = str(fields["reason"]).removesuffix(f" (broker {broker})")
        self.reason = reason.removeprefix("connection failed: ")
        if "does not resolve" not in self.reason:
            print_error(f"{broker}: {self.reason}; {self._action}")


def _dotted(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name.replace("_", "."): value for name, value in options.items() if value is not None}


def _client_options(values: Iterable[str]) -> dict[str, str]:
    """Return the options of ``-X``; a later one overrides an earlier one."""
    options: dict[str, str] = {}
    default = os.environ.get(CONFIG_VARIABLE)
    for text in ([f"@{default}"] if default else []) + list(values):
        options |= _options_of_file(text[1:]) if text.startswith("@") else parse_pairs([text], "-X")
    return options


def _options_of_file(path: str) -> dict[str, str]:
    from odradek.config.sources import parse_properties

    try:
        with open(path, encoding="utf-8") as file:
            return parse_properties(file.read(CONFIG_CHARACTERS_MAX))
    except (OSError, ValueError) as error:
        usage_error(f"client options cannot be read: {error}")


def parse_pairs(values: Iterable[str], option: str) -> dict[str, str]:
    """Parse NAME=VALUE arguments; anything else is a usage error."""
    pairs = {}
    for text in values:
        name, equals, value = text.partition("=")
        if not equals or not name:
            usage_error(f"{option} must be NAME=VALUE, got {text!r}")
        pairs[name.strip()] = value
    return pairs
