"""Settings that Kafka has and that are not available yet: they stop the start, with what to do instead."""

from __future__ import annotations

from odradek.config import broker
from odradek.config.endpoints import SecurityProtocol, parse_addresses, parse_protocols
from odradek.config.table import Settings


def listener_problems(settings: Settings) -> list[str]:
    """Return one line for each listener that is not PLAINTEXT."""
    protocols = parse_protocols(settings[broker.LISTENER_SECURITY_PROTOCOL_MAP])
    found = []
    for name, host, port in parse_addresses(settings[broker.LISTENERS]):
        protocol = protocols.get(name, SecurityProtocol.PLAINTEXT)
        if protocol is not SecurityProtocol.PLAINTEXT:
            place = f"{f'[{host}]' if ':' in host else host}:{port}"
            found.append(
                f"listeners: {name}://{place}: {protocol.value} is not available yet. Use "
                f"listeners=PLAINTEXT://{place}; for clients on other machines, put an SSH tunnel or a TLS "
                "proxy in front of a listener on 127.0.0.1"
            )
    return found


def store_problems(settings: Settings) -> list[str]:
    """Return a line if the cluster's state is to be kept in ZooKeeper."""
    if settings[broker.ZOOKEEPER_CONNECT] is None:
        return []
    return [
        "zookeeper.connect: clusters on ZooKeeper are not available yet. Leave it out: the broker then keeps "
        "the cluster's state in the first of log.dirs"
    ]
