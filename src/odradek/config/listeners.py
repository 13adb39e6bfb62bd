"""Listeners as the settings describe them: where the broker listens, what it tells clients, who is let in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from odradek.config import broker
from odradek.config.definition import Setting, Settings, UpdateMode
from odradek.config.endpoints import ListenerAddress, SecurityProtocol, parse_addresses, parse_protocols

NONROUTABLE = "0.0.0.0"


class ListenerEndpoint(NamedTuple):
    """A listener: its name, how it is secured, and an address. An empty host means all interfaces."""

    name: str
    protocol: SecurityProtocol
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


class Listeners(NamedTuple):
    """``bound`` is where to listen, ``advertised`` what clients are told; both in the settings' order.

    An advertised endpoint without a host stands for the machine's own name, which only its owner knows.
    """

    bound: tuple[ListenerEndpoint, ...]
    advertised: tuple[ListenerEndpoint, ...]
    inter_broker: str
    control_plane: str | None

    def advertised_as(self, name: str) -> ListenerEndpoint | None:
        return next((endpoint for endpoint in self.advertised if endpoint.name == name), None)


def listeners(settings: Settings) -> Listeners:
    """The listeners of a configuration that ``problems`` finds nothing wrong with."""
    protocols = parse_protocols(settings[broker.LISTENER_SECURITY_PROTOCOL_MAP])
    return Listeners(
        _endpoints(_bound(settings), protocols),
        _endpoints(_advertised(settings), protocols),
        _inter_broker(settings),
        _upper(settings[broker.CONTROL_PLANE_LISTENER_NAME]),
    )


class ListenerChange(NamedTuple):
    """Changes that lead from one set of listeners to another; one that moves keeps its name."""

    added: tuple[ListenerEndpoint, ...]
    moved: tuple[ListenerEndpoint, ...]
    removed: tuple[str, ...]


def plan_change(bound: Iterable[ListenerEndpoint], wanted: Sequence[ListenerEndpoint]) -> ListenerChange:
    before = {endpoint.name: endpoint for endpoint in bound}
    after = {endpoint.name for endpoint in wanted}
    return ListenerChange(
        tuple(endpoint for endpoint in wanted if endpoint.name not in before),
        tuple(endpoint for endpoint in wanted if before.get(endpoint.name, endpoint) != endpoint),
        tuple(name for name in before if name not in after),
    )


def change_problems(before: Settings, after: Settings) -> list[str]:
    """Why listeners that stay cannot be changed like this while the broker runs."""
    old = parse_protocols(before[broker.LISTENER_SECURITY_PROTOCOL_MAP])
    new = parse_protocols(after[broker.LISTENER_SECURITY_PROTOCOL_MAP])
    staying = {address.name for address in _bound(before)} & {address.name for address in _bound(after)}
    found = [
        f"Security protocol cannot be updated for existing listener {name}"
        for name in sorted(staying)
        if name in new and old[name] is not new[name]
    ]
    found.extend(
        f"Configs cannot be updated dynamically for existing listener {name}, "
        f"restart broker or create a new listener for update: {setting.name}"
        for name in sorted(staying)
        for setting in _fixed_on_listener(name, before, after)
    )
    return found


def _fixed_on_listener(name: str, before: Settings, after: Settings) -> list[Setting[Any]]:
    """Settings with this listener's prefix that differ and cannot change while the broker runs."""
    return [
        setting
        for setting in before.given_on(name) | after.given_on(name)
        if setting.dynamic is UpdateMode.READ_ONLY
        and before.for_listener(name, setting) != after.for_listener(name, setting)
    ]


def problems(settings: Settings) -> list[str]:
    """Why these listeners cannot be: one line each."""
    bound, advertised = _bound(settings), _advertised(settings)
    protocols = parse_protocols(settings[broker.LISTENER_SECURITY_PROTOCOL_MAP])
    return [
        *_list_problems("listeners", bound, protocols),
        *([] if advertised == bound else _list_problems("advertised.listeners", advertised, protocols)),
        *_duplicate_ports(bound),
        *_advertised_problems(advertised, {address.name for address in bound}),
        *_special_problems(settings, {address.name for address in advertised}),
    ]


def anonymous(settings: Settings) -> list[ListenerEndpoint]:
    """Listeners that other machines can reach and that let in whoever comes."""
    protocols = parse_protocols(settings[broker.LISTENER_SECURITY_PROTOCOL_MAP])
    known = tuple(address for address in _bound(settings) if address.name in protocols)
    return [
        endpoint
        for endpoint in _endpoints(known, protocols)
        if not _is_loopback(endpoint.host) and not _authenticates(settings, endpoint)
    ]


def anonymous_access_problems(settings: Settings) -> list[str]:
    """Nobody serves strangers by accident: such a listener needs ``odradek.allow.anonymous=true``."""
    return [] if settings[broker.ODRADEK_ALLOW_ANONYMOUS] else [_exposure(e) for e in anonymous(settings)]


def new_anonymous_access_problems(before: Settings, after: Settings) -> list[str]:
    """The same for a change at run time: what the change itself would expose."""
    if after[broker.ODRADEK_ALLOW_ANONYMOUS]:
        return []
    known = anonymous(before)
    return [_exposure(endpoint) for endpoint in anonymous(after) if endpoint not in known]


def _exposure(endpoint: ListenerEndpoint) -> str:
    return (
        f"listeners: {endpoint} can be reached from other machines without authentication. Listen on "
        "127.0.0.1, or, on a network you trust, set odradek.allow.anonymous=true (TLS and SASL are not "
        "available yet)"
    )


def _bound(settings: Settings) -> tuple[ListenerAddress, ...]:
    return parse_addresses(settings[broker.LISTENERS])


def _advertised(settings: Settings) -> tuple[ListenerAddress, ...]:
    given = settings[broker.ADVERTISED_LISTENERS]
    return _bound(settings) if given is None else parse_addresses(given)


def _endpoints(
    addresses: tuple[ListenerAddress, ...], protocols: dict[str, SecurityProtocol]
) -> tuple[ListenerEndpoint, ...]:
    return tuple(ListenerEndpoint(name, protocols[name], host, port) for name, host, port in addresses)


def _inter_broker(settings: Settings) -> str:
    name = _upper(settings[broker.INTER_BROKER_LISTENER_NAME])
    return settings[broker.SECURITY_INTER_BROKER_PROTOCOL] if name is None else name


def _upper(name: str | None) -> str | None:
    return None if name is None else name.upper()


def _list_problems(
    setting: str, addresses: tuple[ListenerAddress, ...], protocols: dict[str, SecurityProtocol]
) -> list[str]:
    if not addresses:
        return [f"{setting}: there must be at least one listener"]
    names = [address.name for address in addresses]
    found = [f"{setting}: No security protocol defined for listener {n}" for n in names if n not in protocols]
    if len(set(names)) < len(names):
        found.append(f"{setting}: Each listener must have a different name, not {', '.join(names)}")
    return found


def _duplicate_ports(bound: tuple[ListenerAddress, ...]) -> list[str]:
    """Two listeners may share a port only as the IPv4 and the IPv6 side of one place, or if it is 0."""
    seen: dict[int, list[str]] = {}
    for address in bound:
        if address.port:
            seen.setdefault(address.port, []).append(address.host)
    return [
        f"listeners: Each listener must have a different port, but {len(hosts)} have {port}"
        for port, hosts in seen.items()
        if len(hosts) > 2 or (len(hosts) == 2 and not _are_two_families(hosts))
    ]


def _are_two_families(hosts: list[str]) -> bool:
    return all(_ip_version(host) for host in hosts) and _ip_version(hosts[0]) != _ip_version(hosts[1])


def _advertised_problems(advertised: tuple[ListenerAddress, ...], bound_names: set[str]) -> list[str]:
    found = [
        f"advertised.listeners cannot use the nonroutable meta-address {NONROUTABLE} ({address.name}). Set "
        f"advertised.listeners={address.name}://HOST:{address.port}, where HOST is the name or address by "
        "which clients reach this machine"
        for address in advertised
        if address.host == NONROUTABLE
    ]
    found.extend(
        f"advertised.listeners: {address.name} is not one of the listeners {', '.join(sorted(bound_names))}"
        for address in advertised
        if address.name not in bound_names
    )
    return found


def _special_problems(settings: Settings, names: set[str]) -> list[str]:
    known = ", ".join(sorted(names))
    found = []
    inter_broker = _inter_broker(settings)
    if inter_broker not in names:
        found.append(
            f"inter.broker.listener.name must be a listener name defined in advertised.listeners: "
            f"one of {known}, not {inter_broker}"
        )
    control = _upper(settings[broker.CONTROL_PLANE_LISTENER_NAME])
    if control is not None and control not in names:
        found.append(
            f"control.plane.listener.name must be a listener name defined in advertised.listeners: "
            f"one of {known}, not {control}"
        )
    if control is not None and control == inter_broker:
        found.append(
            "control.plane.listener.name and inter.broker.listener.name must not be the same listener"
        )
    return found


def _authenticates(settings: Settings, endpoint: ListenerEndpoint) -> bool:
    if endpoint.protocol is SecurityProtocol.SSL:
        return settings.for_listener(endpoint.name, broker.SSL_CLIENT_AUTH) == "required"
    return endpoint.protocol.sasl


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    from ipaddress import ip_address

    return _ip_version(host) is not None and ip_address(host).is_loopback


def _ip_version(host: str) -> int | None:
    from ipaddress import ip_address

    try:
        return ip_address(host).version
    except ValueError:
        return None
