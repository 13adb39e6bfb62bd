"""Networks of a cluster: loopback, or a network namespace for each broker with a router between them.

The router is a namespace too. Two ends are cut by a rule of the router that drops the packets from one to
the other: neither end notices anything but silence. The router can also lose some of the packets (iptables'
``statistic``), and pass packets to a broker on slowly (``tbf``). Root is needed.

```
this namespace            router              broker 1, 2, 3
clients .1, ZooKeeper .2  ────── .254 ──────  .11, .12, .13
```
"""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import Protocol

LOOPBACK = "127.0.0.1"


class End(Enum):
    """An end of a link that is not a broker."""

    CLIENTS = 1
    ZOOKEEPER = 2


Side = int | End
"""A broker's id, or another end."""


class Network(Protocol):
    """Addresses of a cluster. ``can_cut`` says whether links can be cut, lose packets and be slow."""

    can_cut: bool
    zookeeper_host: str

    def host(self, broker: int) -> str: ...

    def command(self, broker: int, command: Sequence[str]) -> list[str]:
        """Return the command that runs another one where this broker is."""
        ...

    def cut(self, sender: Side, receiver: Side) -> None:
        """Drop packets of this direction."""
        ...

    def lose(self, sender: Side, receiver: Side, probability: float) -> None:
        """Drop some packets of this direction."""
        ...

    def slow(self, broker: int, kilobits_per_second: int) -> None:
        """Pass on what is sent to a broker at this speed."""
        ...

    def heal(self) -> None:
        """Pass on everything again, at once."""
        ...

    def close(self) -> None: ...


class Loopback:
    can_cut = False
    zookeeper_host = LOOPBACK

    def host(self, broker: int) -> str:
        return LOOPBACK

    def command(self, broker: int, command: Sequence[str]) -> list[str]:
        return list(command)

    def cut(self, sender: Side, receiver: Side) -> None:
        raise AssertionError("links of a cluster on loopback cannot be cut")

    def lose(self, sender: Side, receiver: Side, probability: float) -> None:
        raise AssertionError("links of a cluster on loopback lose nothing")

    def slow(self, broker: int, kilobits_per_second: int) -> None:
        raise AssertionError("links of a cluster on loopback cannot be slow")

    def heal(self) -> None:
        """Do nothing: nothing was cut."""

    def close(self) -> None:
        """Do nothing."""


class Namespaces:
    can_cut = True

    def __init__(self, brokers: Sequence[int]) -> None:
        self._brokers = brokers
        token = secrets.token_hex(4)
        self._subnet = _unused_subnet()
        self._router = f"odradek-{token}-router"
        self._names = {broker: f"odradek-{token}-{broker}" for broker in brokers}
        self._device = f"od{token}h"
        self._token = token
        self._cuts: list[tuple[Side, Side]] = []
        self._loses = False
        self._slow: set[int] = set()
        self.zookeeper_host = self._address(End.ZOOKEEPER)
        try:
            self._create()
        except BaseException:
            self.close()
            raise

    def host(self, broker: int) -> str:
        return self._address(broker)

    def command(self, broker: int, command: Sequence[str]) -> list[str]:
        return ["ip", "netns", "exec", self._names[broker], *command]

    def cut(self, sender: Side, receiver: Side) -> None:
        _ip("-n", self._router, "rule", "add", *self._rule(sender, receiver))
        self._cuts.append((sender, receiver))

    def heal(self) -> None:
        while self._cuts:
            _ip("-n", self._router, "rule", "del", *self._rule(*self._cuts.pop()))
        if self._loses:
            self._loses = False
            self._in_router("iptables", "-F", "FORWARD")
        while self._slow:
            self._in_router("tc", "qdisc", "del", "dev", f"broker{self._slow.pop()}", "root")

    def lose(self, sender: Side, receiver: Side, probability: float) -> None:
        self._loses = True
        ends = ("-s", self._address(sender), "-d", self._address(receiver))
        chance = ("-m", "statistic", "--mode", "random", "--probability", str(probability))
        self._in_router("iptables", "-A", "FORWARD", *ends, *chance, "-j", "DROP")

    def slow(self, broker: int, kilobits_per_second: int) -> None:
        rate = ("rate", f"{kilobits_per_second}kbit", "burst", "4kb", "latency", "2s")
        self._in_router("tc", "qdisc", "add", "dev", f"broker{broker}", "root", "tbf", *rate)
        self._slow.add(broker)

    def _in_router(self, *command: str) -> None:
        _run(["ip", "netns", "exec", self._router, *command])

    def close(self) -> None:
        # The interfaces go with their namespaces, and with the other ends of their pairs.
        for name in (self._router, *self._names.values()):
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)

    def _rule(self, sender: Side, receiver: Side) -> list[str]:
        return ["from", self._address(sender), "to", self._address(receiver), "blackhole"]

    def _address(self, side: Side) -> str:
        return f"{self._subnet}.{side.value if isinstance(side, End) else 10 + side}"

    def _create(self) -> None:
        gateway = f"{self._subnet}.254"
        _ip("netns", "add", self._router)
        _ip("-n", self._router, "link", "set", "lo", "up")
        forward = "echo 1 > /proc/sys/net/ipv4/ip_forward"
        _run(["ip", "netns", "exec", self._router, "sh", "-c", forward])
        _ip("link", "add", self._device, "type", "veth", "peer", "name", "hosts", "netns", self._router)
        _ip("link", "set", self._device, "up")
        for end in End:
            _ip("addr", "add", f"{self._address(end)}/32", "dev", self._device)
        self._attach("hosts", gateway, [self._address(end) for end in End])
        source = self._address(End.CLIENTS)
        _ip("route", "add", f"{gateway}/32", "dev", self._device, "src", source)
        _ip("route", "add", f"{self._subnet}.0/24", "via", gateway, "dev", self._device, "src", source)
        for broker, name in self._names.items():
            self._create_broker(broker, name, gateway)

    def _create_broker(self, broker: int, name: str, gateway: str) -> None:
        _ip("netns", "add", name)
        _ip("-n", name, "link", "set", "lo", "up")
        port = f"broker{broker}"
        _ip(
            *("link", "add", f"od{self._token}t", "netns", name),
            *("type", "veth", "peer", "name", port, "netns", self._router),
        )
        _ip("-n", name, "link", "set", f"od{self._token}t", "name", "eth0")
        _ip("-n", name, "addr", "add", f"{self._address(broker)}/32", "dev", "eth0")
        _ip("-n", name, "link", "set", "eth0", "up")
        self._attach(port, gateway, [self._address(broker)])
        _ip("-n", name, "route", "add", f"{gateway}/32", "dev", "eth0")
        _ip("-n", name, "route", "add", "default", "via", gateway, "dev", "eth0")

    def _attach(self, device: str, gateway: str, addresses: Sequence[str]) -> None:
        """Set up the router's end of a link."""
        _ip("-n", self._router, "addr", "add", f"{gateway}/32", "dev", device)
        _ip("-n", self._router, "link", "set", device, "up")
        for address in addresses:
            _ip("-n", self._router, "route", "add", f"{address}/32", "dev", device)


def _unused_subnet() -> str:
    """Return the first three bytes of addresses that no other cluster on this machine has."""
    used = subprocess.run(["ip", "-o", "-4", "addr"], capture_output=True, text=True, check=True).stdout
    while True:
        subnet = f"10.{64 + secrets.randbelow(190)}.{secrets.randbelow(250)}"
        if f" {subnet}." not in used:
            return subnet


def why_no_namespaces() -> str | None:
    """Return why this machine cannot make network namespaces; None if it can."""
    if os.geteuid():
        return "network namespaces need root"
    try:
        with _trial():
            return None
    except (OSError, subprocess.CalledProcessError) as error:
        detail = error.stderr.strip() if isinstance(error, subprocess.CalledProcessError) else str(error)
        return f"network namespaces cannot be made here: {detail}"


def why_no_loss() -> str | None:
    """Return why this machine cannot lose packets or slow a link down; None if it can."""
    if reason := why_no_namespaces():
        return reason
    network = Namespaces([1])
    try:
        network.lose(1, End.ZOOKEEPER, 0.5)
        network.slow(1, 1_000)
        network.heal()
    except (OSError, subprocess.CalledProcessError) as error:
        detail = error.stderr.strip() if isinstance(error, subprocess.CalledProcessError) else str(error)
        return f"packets cannot be lost here: {detail}"
    finally:
        network.close()
    return None


@contextmanager
def _trial() -> Iterator[None]:
    network = Namespaces([1])
    try:
        network.cut(1, End.ZOOKEEPER)
        yield
    finally:
        network.close()


def _ip(*arguments: str) -> None:
    _run(["ip", *arguments])


def _run(command: Sequence[str]) -> None:
    subprocess.run(command, capture_output=True, text=True, check=True)
