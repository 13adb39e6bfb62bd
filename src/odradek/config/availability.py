"""Checks for settings of Kafka that are not available yet: they prevent the start, with advice."""

from __future__ import annotations

from collections.abc import Mapping

from odradek.config import broker
from odradek.config.authorizer import AUTHORIZER_BY_NAME
from odradek.config.definition import Settings
from odradek.config.endpoints import SecurityProtocol, parse_addresses, parse_protocols
from odradek.config.lookup import find_broker_setting


def unavailable_protocol_problems(settings: Settings) -> list[str]:
    """Return one line for each listener that is not PLAINTEXT."""
    protocols = parse_protocols(settings[broker.LISTENER_SECURITY_PROTOCOL_MAP])
    problems = []
    for name, host, port in parse_addresses(settings[broker.LISTENERS]):
        protocol = protocols.get(name, SecurityProtocol.PLAINTEXT)
        if protocol is not SecurityProtocol.PLAINTEXT:
            address = f"{f'[{host}]' if ':' in host else host}:{port}"
            problems.append(
                f"listeners: {name}://{address}: {protocol.value} is not available yet. Use "
                f"listeners=PLAINTEXT://{address}; for clients on other machines, put an SSH tunnel or a TLS "
                "proxy in front of a listener on 127.0.0.1"
            )
    return problems


def unavailable_setting_problems(raw_values: Mapping[str, str]) -> list[str]:
    """Return one line for each setting that is not available and differs from its default.

    ``raw_values`` must be valid.
    """
    problems = []
    for name, value in raw_values.items():
        setting = AUTHORIZER_BY_NAME.get(name) or find_broker_setting(name)
        if setting is not None and setting.unavailable and setting.parse_value(value) != setting.default:
            problems.append(f"{name}: {setting.unavailable}")
    return problems
