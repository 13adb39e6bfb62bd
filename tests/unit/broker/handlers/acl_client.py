"""Clients with principals, on a broker with an authorizer whose super user is everybody else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from odradek.model.acl_enums import CLUSTER_NAME, AclPermissionType, AclResourceType, PatternType
from odradek.model.acl_operations import AclOperation
from odradek.model.errors import ErrorCode
from odradek.security.acls.bindings import AccessControlEntry, AclBinding, ResourcePattern
from odradek.security.principal import user
from odradek.testing.broker import Client
from odradek.wire.apis import APIS
from odradek.wire.messages.api_versions import ApiVersionsRequest

SETTINGS: Final = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}
API_KEYS: Final = {api.name: api.key for api in APIS}

TOPIC, GROUP, CLUSTER = AclResourceType.TOPIC, AclResourceType.GROUP, AclResourceType.CLUSTER
TRANSACTIONAL_ID = AclResourceType.TRANSACTIONAL_ID

AUTHORIZATION_ERRORS: Final = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)

_NAMES = ("name", "topic", "topic_name", "group_id", "transactional_id", "key", "resource_name")


async def connect_as(
    harness: Any,
    name: str,
    client_id: str = "client",
    *,
    listener: str | None = None,
    with_token: bool = False,
) -> Client:
    """Return a client whose connection has a principal, as if it were authenticated.

    ``listener`` is the name of the one that it is connected to, by default the one of the broker.
    """
    before = set(_sessions(harness))
    client = await harness.memory_broker.connect(client_id)
    await client.request(API_KEYS["ApiVersions"], 0, ApiVersionsRequest())
    [session] = set(_sessions(harness)) - before
    session.principal = user(name)
    session.authenticated_with_token = with_token
    if listener is not None:
        session.listener_name = listener
    return client


def _sessions(harness: Any) -> Iterator[Any]:
    for listener in harness.broker._socket_server:
        yield from listener.sessions


async def send(client: Client, api: str, version: int, request: Any) -> Any:
    return await client.request(API_KEYS[api], version, request)


def acl(
    operation: AclOperation,
    resource_type: AclResourceType,
    name: str = CLUSTER_NAME,
    permission: AclPermissionType = AclPermissionType.ALLOW,
    *,
    principal: str = "User:alice",
    kind: PatternType = PatternType.LITERAL,
) -> AclBinding:
    pattern = ResourcePattern(resource_type, name, kind)
    return AclBinding(pattern, AccessControlEntry(principal, operation, permission))


async def allow(harness: Any, *bindings: AclBinding) -> None:
    assert set(await harness.broker._acl_manager.create(bindings)) <= {None}


def codes_by_name(response: Any, name: str = "") -> dict[str, set[ErrorCode]]:
    """Return the error codes in a response by the name of the resource they are nested in."""
    codes: dict[str, set[ErrorCode]] = {}
    _collect(response, name, codes)
    return codes


def _collect(value: Any, name: str, codes: dict[str, set[ErrorCode]]) -> None:
    if isinstance(value, list):
        for item in value:
            _collect(item, name, codes)
        return
    fields = fields_of(value)
    name = next((fields[field] for field in _NAMES if isinstance(fields.get(field), str)), name)
    for field, item in fields.items():
        if field in ("error_code", "partition_error_code"):
            codes.setdefault(name, set()).add(ErrorCode(item))
        elif isinstance(item, list) or hasattr(item, "__slots__"):
            _collect(item, name, codes)


def fields_of(value: Any) -> Mapping[str, Any]:
    """Return the fields of a message or structure; none of anything else."""
    names = getattr(type(value), "__slots__", ())
    return {name: getattr(value, name) for name in names if hasattr(value, name)}


def denied(codes: Mapping[str, set[ErrorCode]]) -> dict[str, ErrorCode]:
    """Return the names with an authorization error."""
    return {name: code for name, each in codes.items() for code in each & AUTHORIZATION_ERRORS}
