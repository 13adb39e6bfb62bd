"""Entities of quota requests, and their nodes below ``/config``."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from odradek.broker.quotas.quota_configs import CLIENT_QUOTAS, IP_QUOTAS, ValueType
from odradek.broker.quotas.quota_entities import DEFAULT, EntityName, QuotaEntity
from odradek.model.errors import BrokerError, ErrorCode
from odradek.store.layout.entity_names import desanitize, sanitize
from odradek.store.layout.znode_paths import DEFAULT_ENTITY

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

USERS: Final = "users"
CLIENTS: Final = "clients"
IPS: Final = "ips"


class EntityPart(Protocol):
    """A user, client id or address of a request; a null name is the default."""

    @property
    def entity_type(self) -> str: ...
    @property
    def entity_name(self) -> str | None: ...


class EntityPath(NamedTuple):
    """Node of an entity: its config type, its name below that, and the quotas it may have."""

    config_type: str
    name: str
    quota_types: Mapping[str, ValueType]


def node_name(name: str | None) -> str:
    """Return the node name of an entity; None is the default."""
    return DEFAULT_ENTITY if name is None else sanitize(name)


def entity_name(node: str) -> str | None:
    """Return the name of an entity; None is the default."""
    return None if node == DEFAULT_ENTITY else desanitize(node)


def pair_name(user: str | None, client_id: str | None) -> str:
    """Return the name below ``/config/users`` of a user and client id."""
    return f"{node_name(user)}/{CLIENTS}/{node_name(client_id)}"


def entity_path(parts: Sequence[EntityPart]) -> EntityPath:
    """Return the node of the entity of a request. Raises INVALID_REQUEST."""
    names = _names(parts)
    if IP in names:
        if len(names) > 1:
            raise _invalid(f"entity type ip must not be combined with others, got {', '.join(names)}")
        address = names[IP]
        if address is not None and normalize_ip(address) is None:
            raise _invalid(f"ip must be an IP address, got '{address[:249]}'")
        return EntityPath(IPS, node_name(address), IP_QUOTAS)
    if USER not in names:
        return EntityPath(CLIENTS, node_name(names[CLIENT_ID]), CLIENT_QUOTAS)
    if CLIENT_ID not in names:
        return EntityPath(USERS, node_name(names[USER]), CLIENT_QUOTAS)
    return EntityPath(USERS, pair_name(names[USER], names[CLIENT_ID]), CLIENT_QUOTAS)


def _names(parts: Sequence[EntityPart]) -> dict[str, str | None]:
    names: dict[str, str | None] = {}
    for part in parts:
        kind, name = part.entity_type, part.entity_name
        if kind not in (USER, CLIENT_ID, IP):
            raise _invalid(f"entity type must be user, client-id or ip, got '{kind[:249]}'")
        if kind in names:
            raise _invalid(f"each entity type must appear once, got {kind} twice")
        if name is not None and name in ("", ".", ".."):
            raise _invalid(f"name of entity type {kind} must be null or a name, got '{name}'")
        names[kind] = name
    if not names:
        raise _invalid("entity must have a user, client-id or ip, got none")
    return names


def parse_quota_entity(config_type: str, name: str) -> QuotaEntity | None:
    """Return the entity of a node of users or clients; None if it is another one."""
    if config_type == CLIENTS:
        return QuotaEntity(None, _quota_name(name)) if "/" not in name else None
    parts = name.split("/")
    if len(parts) == 1:
        return QuotaEntity(_quota_name(name), None)
    if len(parts) == 3 and parts[1] == CLIENTS:
        return QuotaEntity(_quota_name(parts[0]), _quota_name(parts[2]))
    return None


def parse_ip_entity(name: str) -> EntityName | None:
    """Return the address of a node of ips, in one form; None if it is none."""
    return DEFAULT if name == DEFAULT_ENTITY else normalize_ip(desanitize(name))


def normalize_ip(text: str) -> str | None:
    """Return an address in its one form, with IPv4 for a mapped one; None if the text is none."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def _quota_name(node: str) -> EntityName:
    return DEFAULT if node == DEFAULT_ENTITY else desanitize(node)


def _invalid(message: str) -> BrokerError:
    return BrokerError(ErrorCode.INVALID_REQUEST, message)
