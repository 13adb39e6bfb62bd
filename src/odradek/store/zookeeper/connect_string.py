"""The value of ``zookeeper.connect``: servers, and the path below which a cluster keeps its nodes. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

from odradek.store.layout.node_paths import check_path
from odradek.store.port import BadPath

DEFAULT_PORT: Final = 2181
_PORT_MAX: Final = 65535


class ConnectString(NamedTuple):
    """Servers as ``host:port``, and the chroot: empty, or a path without a trailing slash."""

    servers: tuple[str, ...]
    chroot: str

    @property
    def hosts(self) -> str:
        """The servers, as kazoo expects them."""
        return ",".join(self.servers)

    def __str__(self) -> str:
        return self.hosts + self.chroot


def parse_connect_string(text: str) -> ConnectString:
    """Parse ``h1:p1,h2:p2/chroot``; raises ``ValueError`` with the reason."""
    addresses, slash, path = text.strip().partition("/")
    chroot = f"/{path}" if slash and path else ""
    if chroot:
        try:
            check_path(chroot)
        except BadPath as error:
            raise ValueError(f"path {chroot}: {error.detail}") from None
    servers = tuple(_parse_address(address) for address in addresses.split(","))
    return ConnectString(servers, chroot)


def _parse_address(text: str) -> str:
    address = text.strip()
    host, colon, port = address.rpartition(":")
    if not colon or address.endswith("]"):  # no port; the colons of an IPv6 address are in brackets
        host, port = address, str(DEFAULT_PORT)
    if not host or (":" in host and not (host.startswith("[") and host.endswith("]"))):
        raise ValueError(f"server must be host:port, with an IPv6 address in brackets, got {address!r}")
    if not (port.isascii() and port.isdecimal() and 0 < int(port) <= _PORT_MAX):
        raise ValueError(f"port must be between 1 and {_PORT_MAX}, got {address!r}")
    return f"{host}:{port}"
