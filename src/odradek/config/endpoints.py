"""Parsing of ``NAME://host:port``, ``NAME:PROTOCOL`` and ``address:limit`` lists in settings.

Syntax only; ``listeners`` checks whether names and protocols are consistent.
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
    """One ``NAME://host:port``; the name is in upper case, an empty host means all interfaces."""

    name: str
    host: str
    port: int


def split_list(text: str) -> list[str]:
    """Return the non-empty items of a comma-separated list."""
    return [item for item in (part.strip() for part in text.split(",")) if item]


def parse_addresses(text: str) -> tuple[ListenerAddress, ...]:
    """Parse a list of addresses. Raises ValueError with the requirement."""
    return tuple(_parse_address(item) for item in split_list(text))


def parse_protocols(text: str) -> dict[str, SecurityProtocol]:
    """Parse ``NAME:PROTOCOL`` pairs; the last one of a name wins. Raises ValueError with the requirement."""
    protocols = {}
    for item in split_list(text):
        name, colon, protocol = item.rpartition(":")
        if not colon:
            raise ValueError("must be a list of NAME:PROTOCOL")
        try:
            protocols[name.strip().upper()] = SecurityProtocol(protocol.strip().upper())
        except ValueError:
            known = ", ".join(protocol.value for protocol in SecurityProtocol)
            raise ValueError(f"must have only the protocols {known}") from None
    return protocols


def parse_limits(text: str) -> dict[str, int]:
    """Parse ``address:limit`` pairs; an address may contain colons. Raises ValueError like the others."""
    limits = {}
    for item in split_list(text):
        address, colon, limit = item.rpartition(":")
        if not colon or not address or not (limit.isascii() and limit.isdigit()) or len(limit) > 10:
            raise ValueError("must be a list of address:limit")
        limits[address] = int(limit)
    return limits


def check_list(text: str | None) -> str | None:
    return _reason(lambda: parse_addresses(text or ""))


def check_protocols(text: str) -> str | None:
    return _reason(lambda: parse_protocols(text))


def check_limits(text: str) -> str | None:
    return _reason(lambda: parse_limits(text))


def _reason(parse: Callable[[], object]) -> str | None:
    try:
        parse()
    except ValueError as error:
        return str(error)
    return None


def _parse_address(text: str) -> ListenerAddress:
    name, separator, rest = text.partition("://")
    host, colon, port = rest.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not (name and separator and colon and port.isascii() and port.isdigit()) or (
        ":" in host and not bracketed
    ):
        raise ValueError("must be a list of NAME://host:port")
    if len(port) > 5 or int(port) > 65535:
        raise ValueError("must have ports between 0 and 65535")
    return ListenerAddress(name.upper(), host[1:-1] if bracketed else host, int(port))
