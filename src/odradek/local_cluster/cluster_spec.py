"""A local cluster: its brokers, their addresses, racks and settings, and the port of ZooKeeper.

Pure. Members are named as their directories: ``zookeeper``, ``broker-1``, ``broker-2`` and so on. Brokers are
numbered from 1, and their ports are consecutive.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from odradek.local_cluster.errors import ClusterError

DEFAULT_DIRECTORY: Final = "odradek-cluster"
HOST: Final = "127.0.0.1"
ZOOKEEPER: Final = "zookeeper"
BROKERS_MAX: Final = 20
"""Each takes some 60 MB of memory, and all share the machine."""
_PREFIX: Final = "broker-"
NO_SETTINGS: Final[Mapping[str, str]] = MappingProxyType({})


class ClusterSpec(NamedTuple):
    """A cluster as stored in its directory. Racks are assigned in turn."""

    brokers: int
    port: int
    zookeeper_port: int
    racks: tuple[str, ...] = ()
    settings: Mapping[str, str] = NO_SETTINGS

    @property
    def numbers(self) -> range:
        return range(1, self.brokers + 1)

    @property
    def members(self) -> tuple[str, ...]:
        return (ZOOKEEPER, *map(broker_name, self.numbers))

    @property
    def bootstrap(self) -> str:
        return ",".join(map(self.address_of, self.numbers))

    def port_of(self, member: str) -> int:
        return self.zookeeper_port if member == ZOOKEEPER else self.port + broker_number(member) - 1

    def member_address(self, member: str) -> str:
        return f"{HOST}:{self.port_of(member)}"

    def address_of(self, number: int) -> str:
        return self.member_address(broker_name(number))

    def rack_of(self, number: int) -> str | None:
        return self.racks[(number - 1) % len(self.racks)] if self.racks else None


def broker_name(number: int) -> str:
    return f"{_PREFIX}{number}"


def broker_number(member: str) -> int:
    """Return the number of a member that is a broker."""
    return int(member.removeprefix(_PREFIX))


def label(member: str) -> str:
    """Return a member's name in messages."""
    return "ZooKeeper" if member == ZOOKEEPER else f"broker {broker_number(member)}"


def cluster_command(arguments: str, directory: str) -> str:
    """Return a command to run, in backquotes, for a message."""
    option = "" if directory == DEFAULT_DIRECTORY else f" -d {directory}"
    return f"`odradek cluster {arguments}{option}`"


def find_member(spec: ClusterSpec, text: str) -> str:
    """Return the member that a command names: a broker's number, or zookeeper."""
    if text.lower() == ZOOKEEPER:
        return ZOOKEEPER
    number = text.lower().removeprefix(_PREFIX)
    if number.isascii() and number.isdigit() and int(number) in spec.numbers:
        return broker_name(int(number))
    brokers = "broker 1" if spec.brokers == 1 else f"brokers 1 to {spec.brokers}"
    raise ClusterError(f"no broker {text!r}: the cluster has {brokers}, and zookeeper")
