"""Settings that Kafka has and that are not available yet: they stop the start, with what to do instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from odradek.config import broker
from odradek.config.broker.unavailable_reasons import NO_ACCESS_CONTROL
from odradek.config.definition import Settings, by_name
from odradek.config.endpoints import SecurityProtocol, parse_addresses, parse_protocols
from odradek.config.lookup import find_broker_setting
from odradek.config.types import LOW, boolean, text


def unavailable_protocol_problems(settings: Settings) -> list[str]:
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


def unavailable_setting_problems(given: Mapping[str, str]) -> list[str]:
    """Return one line for each setting that promises what is not available, protection above all.

    ``given`` are texts that can be read. A default promises nothing.
    """
    found = []
    for name, value in given.items():
        setting = AUTHORIZER_BY_NAME.get(name) or find_broker_setting(name)
        if setting is not None and setting.refused and setting.read(value) != setting.default:
            found.append(f"{name}: {setting.refused}")
    return found


AUTHORIZER_BY_NAME: Final = by_name(
    (
        text(
            "super.users", "", LOW, "Principals an authorizer lets do everything.", refused=NO_ACCESS_CONTROL
        ),
        boolean(
            "allow.everyone.if.no.acl.found",
            True,
            LOW,
            "Whether an authorizer allows what no rule is about.",
            refused=NO_ACCESS_CONTROL,
        ),
    )
)
"""Settings that authorizers of Kafka read, and that Kafka's own table does not hold."""
