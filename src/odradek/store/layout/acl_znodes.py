"""Contents of the znodes of ACLs and of their change notifications, byte for byte as Kafka 3.9 writes them.

Entries are sorted, where Kafka's order is that of a hash set. Names of operations and permission types are
read in any case; those of newer versions become UNKNOWN, which matches no request.
"""

from __future__ import annotations

import enum
from collections.abc import Collection
from typing import Final, TypeVar

from odradek.model.acl_enums import AclPermissionType, AclResourceType, PatternType
from odradek.model.acl_operations import AclOperation
from odradek.security.acls.bindings import AccessControlEntry, ResourcePattern
from odradek.security.principal import parse_principal
from odradek.store.layout import znode_paths
from odradek.store.layout.json_fields import Fields, read_json, write_json
from odradek.store.port import BadPayload

VERSION: Final = 1
PATTERN_TYPES: Final = (PatternType.LITERAL, PatternType.PREFIXED)
RESOURCE_TYPES: Final = tuple(AclResourceType)[2:]
"""Types that resources have: all but UNKNOWN and ANY."""

E = TypeVar("E", AclOperation, AclPermissionType, AclResourceType, PatternType)


def type_name(member: enum.IntEnum) -> str:
    """Return the name of an enum member in paths and entries: ``TransactionalId``, ``ClusterAction``."""
    return "".join(word.capitalize() for word in member.name.split("_"))


def path_of(pattern: ResourcePattern) -> str:
    return f"{type_path(pattern.pattern_type, pattern.resource_type)}/{pattern.name}"


def type_path(pattern_type: PatternType, resource_type: AclResourceType) -> str:
    """Return the node whose children are the patterns of a type."""
    return f"{root_path(pattern_type)}/{type_name(resource_type)}"


def root_path(pattern_type: PatternType) -> str:
    if pattern_type is PatternType.LITERAL:
        return znode_paths.ACL
    return f"{znode_paths.ACL_EXTENDED}/{pattern_type.name.lower()}"


def changes_path(pattern_type: PatternType) -> str:
    is_literal = pattern_type is PatternType.LITERAL
    return znode_paths.ACL_CHANGES if is_literal else znode_paths.ACL_EXTENDED_CHANGES


def parse_resource_type(name: str) -> AclResourceType | None:
    """Return the resource type of a node's name; None if it is of a newer version."""
    return next((kind for kind in RESOURCE_TYPES if type_name(kind) == name), None)


def encode_acls(entries: Collection[AccessControlEntry]) -> bytes:
    acls = [
        {
            "principal": entry.principal,
            "permissionType": type_name(entry.permission_type),
            "host": entry.host,
            "operation": type_name(entry.operation),
        }
        for entry in sorted(entries)
    ]
    return write_json({"acls": acls, "version": VERSION})


def decode_acls(path: str, data: bytes) -> frozenset[AccessControlEntry]:
    """Decode the entries of a pattern. Raises ``BadPayload``: ACLs that were dropped could allow anything."""
    if not data:
        return frozenset()
    fields = read_json(path, data)
    _check_version(fields)
    return frozenset(map(_entry, fields.objects("acls")))


def encode_change(pattern: ResourcePattern) -> bytes:
    """Encode a notification. That of a literal pattern has the format of before there were others."""
    kind = pattern.resource_type.name
    if pattern.pattern_type is PatternType.LITERAL:
        return f"{kind}:{pattern.name}".encode()
    return write_json(
        {
            "version": VERSION,
            "resourceType": kind,
            "name": pattern.name,
            "patternType": pattern.pattern_type.name,
        }
    )


def decode_change(path: str, data: bytes, pattern_type: PatternType) -> ResourcePattern:
    """Decode a notification among those of this pattern type."""
    if pattern_type is not PatternType.LITERAL:
        fields = read_json(path, data)
        _check_version(fields)
        written_type = _member(PatternType, fields.text("patternType"))
        kind, name = fields.text("resourceType"), fields.text("name")
    else:
        written_type = pattern_type
        kind, colon, name = data.decode("utf-8", "replace").partition(":")
        if not colon:
            raise BadPayload(path, f"must be ResourceType:name, got {kind[:60]!r}")
    resource_type = _member(AclResourceType, kind)
    if resource_type not in RESOURCE_TYPES or written_type not in PATTERN_TYPES:
        raise BadPayload(path, f"unknown resource type {kind[:60]!r} or pattern type {written_type.name}")
    return ResourcePattern(resource_type, name, written_type)


def _entry(fields: Fields) -> AccessControlEntry:
    principal = fields.text("principal")
    try:
        parse_principal(principal)
    except ValueError as error:
        fields.fail(f"principal {error}")
    return AccessControlEntry(
        principal,
        _member(AclOperation, fields.text("operation")),
        _member(AclPermissionType, fields.text("permissionType")),
        fields.text("host"),
    )


def _member(cls: type[E], name: str) -> E:
    """Return the member of a name such as ``ClusterAction`` or ``CLUSTER_ACTION``, in any case."""
    plain = name.upper().replace("_", "")
    return next((member for member in cls if member.name.replace("_", "") == plain), cls(0))


def _check_version(fields: Fields) -> None:
    version = fields.integer("version")
    if version != VERSION:
        fields.fail(f"version must be {VERSION}, got {version}")
