"""How addresses are written in settings: ``NAME://host:port``, ``NAME:PROTOCOL`` and ``address:limit`` lists.

Syntax only; whether names and protocols fit together is ``listeners.py``.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import NamedTuple


class SecurityProtocol(enum.Enum):
    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def encrypted(self) -> bool:
        return self in {SecurityProtocol.SSL, SecurityProtocol.SASL_SSL}

    @property
    def sasl(self) -> bool:
        return self in {SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL}


class ListenerAddress(NamedTuple):
    """One ``NAME://host:port``; the name in capitals, an empty host for all interfaces."""

    name: str
    host: str
    port: int


def split_list(given: str) -> list[str]:
    """The non-empty parts of a comma separated text."""
    return [part for part in (word.strip() for word in given.split(",")) if part]


def parse_addresses(given: str) -> tuple[ListenerAddress, ...]:
    """Raises ValueError with the reason."""
    return tuple(_parse_address(word) for word in split_list(given))


def parse_protocols(given: str) -> dict[str, SecurityProtocol]:
    """``NAME:PROTOCOL`` pairs; of two for one name the later counts. Raises ValueError with the reason."""
    protocols = {}
    for word in split_list(given):
        name, colon, protocol = word.rpartition(":")
        if not colon:
            raise ValueError(f"{word} is not of the form NAME:PROTOCOL")
        try:
            protocols[name.strip().upper()] = SecurityProtocol(protocol.strip().upper())
        except ValueError:
            raise ValueError(
                f"{protocol} is not one of {', '.join(p.value for p in SecurityProtocol)}"
            ) from None
    return protocols


def parse_limits(given: str) -> dict[str, int]:
    """``address:limit`` pairs; the address may hold colons. Raises ValueError with the reason."""
    limits = {}
    for word in split_list(given):
        address, colon, limit = word.rpartition(":")
        if not colon or not address or not (limit.isascii() and limit.isdigit()) or len(limit) > 10:
            raise ValueError(f"{word} is not of the form address:limit")
        limits[address] = int(limit)
    return limits


def check_list(given: str | None) -> str | None:
    return _reason(lambda: parse_addresses(given or ""))


def check_protocols(given: str) -> str | None:
    return _reason(lambda: parse_protocols(given))


def check_limits(given: str) -> str | None:
    return _reason(lambda: parse_limits(given))


def _reason(parse: Callable[[], object]) -> str | None:
    try:
        parse()
    except ValueError as wrong:
        return str(wrong)
    return None


def _parse_address(word: str) -> ListenerAddress:
    name, mark, rest = word.partition("://")
    host, colon, port = rest.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not (name and mark and colon and port.isascii() and port.isdigit()) or (":" in host and not bracketed):
        raise ValueError(f"Unable to parse {word} to a broker endpoint")
    if len(port) > 5 or int(port) > 65535:
        raise ValueError(f"The port of {word} must be between 0 and 65535")
    return ListenerAddress(name.upper(), host[1:-1] if bracketed else host, int(port))
