"""Listeners from the settings: bound and advertised endpoints, and checks for anonymous access."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from odradek.config import broker
from odradek.config.definition import AnySetting, Settings, UpdateMode
from odradek.config.endpoints import ListenerAddress, SecurityProtocol, parse_addresses, parse_protocols

NONROUTABLE = "0.0.0.0"


class ListenerEndpoint(NamedTuple):
    """Name, security protocol and address of a listener. An empty host means all interfaces."""

    name: str
    protocol: SecurityProtocol
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


class Listeners(NamedTuple):
    """Bound and advertised endpoints, in the order of the settings.

    An advertised endpoint without a host stands for the machine's host name.
    """

    bound: tuple[ListenerEndpoint, ...]
    advertised: tuple[ListenerEndpoint, ...]
    inter_broker: str
    control_plane: str | None


def listeners(settings: Settings) -> Listeners:
    """Return the listeners of a configuration without ``problems``."""
    protocols = parse_protocols(settings[broker.LISTENER_SECURITY_PROTOCOL_MAP])
    return Listeners(
        _endpoints(_bound(settings), protocols),
        _endpoints(_advertised(settings), protocols),
        _inter_broker(settings),
        _upper(settings[broker.CONTROL_PLANE_LISTENER_NAME]),
    )


def protocol_of(settings: Settings, listener: str) -> SecurityProtocol:
    """Return the security protocol of a listener's name, PLAINTEXT if it is not mapped."""
    protocols = parse_protocols(settings[broker.LISTENER_SECURITY_PROTOCOL_MAP])
    return protocols.get(listener.upper(), SecurityProtocol.PLAINTEXT)


class ListenerChange(NamedTuple):
    """Differences between two sets of listeners; a moved listener keeps its name."""

    added: tuple[ListenerEndpoint, ...]
    moved: tuple[ListenerEndpoint, ...]
    removed: tuple[str, ...]


def plan_change(bound: Iterable[ListenerEndpoint], requested: Sequence[ListenerEndpoint]) -> ListenerChange:
    before = {endpoint.name: endpoint for endpoint in bound}
    after = {endpoint.name for endpoint in requested}
    return ListenerChange(
        tuple(endpoint for endpoint in requested if endpoint.name not in before),
        tuple(endpoint for endpoint in requested if before.get(endpoint.name, endpoint) != endpoint),
        tuple(name for name in before if name not in after),
    )


def change_problems(before: Settings, after: Settings) -> list[str]:
    """Return the changes to existing listeners that are not possible while the broker runs."""
    old = parse_protocols(before[broker.LISTENER_SECURITY_PROTOCOL_MAP])
    new = parse_protocols(after[broker.LISTENER_SECURITY_PROTOCOL_MAP])
    existing = {address.name for address in _bound(before)} & {address.name for address in _bound(after)}
    problems = [
        f"the security protocol of the existing listener {name} cannot be changed"
        for name in sorted(existing)
        if name in new and old[name] is not new[name]
    ]
    problems.extend(
        f"{setting.name} of the existing listener {name} cannot be changed dynamically: restart the broker, "
        "or add another listener"
        for name in sorted(existing)
        for setting in _read_only_changes(name, before, after)
    )
    return problems


def _read_only_changes(name: str, before: Settings, after: Settings) -> list[AnySetting]:
    """Return the changed settings of a listener that are read-only."""
    return [
        setting
        for setting in before.overridden_for(name) | after.overridden_for(name)
        if setting.dynamic is UpdateMode.READ_ONLY
        and before.for_listener(name, setting) != after.for_listener(name, setting)
    ]


def problems(settings: Settings) -> list[str]:
    """Return one line for each problem of the listeners."""
    bound, advertised = _bound(settings), _advertised(settings)
    protocols = parse_protocols(settings[broker.LISTENER_SECURITY_PROTOCOL_MAP])
    return [
        *_list_problems("listeners", bound, protocols),
        *([] if advertised == bound else _list_problems("advertised.listeners", advertised, protocols)),
        *_duplicate_ports(bound),
        *_advertised_problems(advertised, {address.name for address in bound}),
        *_named_listener_problems(settings, {address.name for address in advertised}),
    ]


def anonymous_endpoints(settings: Settings) -> list[ListenerEndpoint]:
    """Return the endpoints that other machines can reach without authentication."""
    protocols = parse_protocols(settings[broker.LISTENER_SECURITY_PROTOCOL_MAP])
    known = tuple(address for address in _bound(settings) if address.name in protocols)
    return [
        endpoint
        for endpoint in _endpoints(known, protocols)
        if not _is_loopback(endpoint.host) and not _authenticates(settings, endpoint)
    ]


def anonymous_access_problems(settings: Settings) -> list[str]:
    """Return one line for each anonymous endpoint, unless ``odradek.allow.anonymous`` is true."""
    if settings[broker.ODRADEK_ALLOW_ANONYMOUS]:
        return []
    return [_anonymous_access_problem(endpoint) for endpoint in anonymous_endpoints(settings)]


def new_anonymous_access_problems(before: Settings, after: Settings) -> list[str]:
    """Return the anonymous endpoints that a change at run time would add."""
    if after[broker.ODRADEK_ALLOW_ANONYMOUS]:
        return []
    existing = anonymous_endpoints(before)
    return [
        _anonymous_access_problem(endpoint)
        for endpoint in anonymous_endpoints(after)
        if endpoint not in existing
    ]


def _anonymous_access_problem(endpoint: ListenerEndpoint) -> str:
    return (
        f"listeners: {endpoint} can be reached from other machines without authentication. Listen on "
        "127.0.0.1, use SASL_SSL or ssl.client.auth=required, or, on a network you trust, set "
        "odradek.allow.anonymous=true"
    )


def unencrypted_listeners(settings: Settings) -> list[str]:
    """Return a warning for each listener that takes credentials from other machines without encryption."""
    protocols = parse_protocols(settings[broker.LISTENER_SECURITY_PROTOCOL_MAP])
    return [
        f"listeners: {address.name}://{address.host}:{address.port} is not encrypted: passwords of PLAIN, "
        "access tokens and all records can be read on the network; use SASL_SSL"
        for address in _bound(settings)
        if protocols.get(address.name) is SecurityProtocol.SASL_PLAINTEXT and not _is_loopback(address.host)
    ]


def _bound(settings: Settings) -> tuple[ListenerAddress, ...]:
    return parse_addresses(settings[broker.LISTENERS])


def _advertised(settings: Settings) -> tuple[ListenerAddress, ...]:
    advertised = settings[broker.ADVERTISED_LISTENERS]
    return _bound(settings) if advertised is None else parse_addresses(advertised)


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
        return [f"{setting} must have at least one listener"]
    names = [address.name for address in addresses]
    problems = [
        f"{setting}: listener {name} has no protocol in listener.security.protocol.map"
        for name in names
        if name not in protocols
    ]
    if len(set(names)) < len(names):
        problems.append(f"{setting} must have a different name for each listener, got {', '.join(names)}")
    return problems


def _duplicate_ports(bound: tuple[ListenerAddress, ...]) -> list[str]:
    """Return a line per duplicate port. Only an IPv4 and an IPv6 listener may share a port other than 0."""
    hosts_by_port: dict[int, list[str]] = {}
    for address in bound:
        if address.port:
            hosts_by_port.setdefault(address.port, []).append(address.host)
    return [
        f"listeners must have a different port for each listener, got {port} {len(hosts)} times"
        for port, hosts in hosts_by_port.items()
        if len(hosts) > 2 or (len(hosts) == 2 and not _are_two_families(hosts))
    ]


def _are_two_families(hosts: list[str]) -> bool:
    return all(_ip_version(host) for host in hosts) and _ip_version(hosts[0]) != _ip_version(hosts[1])


def _advertised_problems(advertised: tuple[ListenerAddress, ...], bound_names: set[str]) -> list[str]:
    problems = [
        f"advertised.listeners cannot use the nonroutable meta-address {NONROUTABLE} ({address.name}). Set "
        f"advertised.listeners={address.name}://HOST:{address.port}, where HOST is the name or address by "
        "which clients reach this machine"
        for address in advertised
        if address.host == NONROUTABLE
    ]
    problems.extend(
        f"advertised.listeners: {address.name} is not one of the listeners {', '.join(sorted(bound_names))}"
        for address in advertised
        if address.name not in bound_names
    )
    return problems


def _named_listener_problems(settings: Settings, names: set[str]) -> list[str]:
    known = ", ".join(sorted(names))
    problems = []
    inter_broker = _inter_broker(settings)
    if inter_broker not in names:
        problems.append(
            f"inter.broker.listener.name must be a listener name defined in advertised.listeners: "
            f"one of {known}, got {inter_broker}"
        )
    control = _upper(settings[broker.CONTROL_PLANE_LISTENER_NAME])
    if control is not None and control not in names:
        problems.append(
            f"control.plane.listener.name must be a listener name defined in advertised.listeners: "
            f"one of {known}, got {control}"
        )
    if control is not None and control == inter_broker:
        problems.append(
            "control.plane.listener.name and inter.broker.listener.name must not be the same listener"
        )
    return problems


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
