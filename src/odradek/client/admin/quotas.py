"""Admin API of client quotas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple

from odradek.client.admin.api_driver import AdminApi
from odradek.client.admin.api_handler import CONTROLLER_MOVED, AdminApiHandler, ApiError
from odradek.client.admin.lookup_strategies import at_any_broker
from odradek.model.errors import ErrorCode
from odradek.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    OpData,
)
from odradek.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

_USER: Final = "user"
_CLIENT_ID: Final = "client-id"
_IP: Final = "ip"

_EXACT: Final = 0
_DEFAULT: Final = 1
_ANY: Final = 2


class QuotaName(Enum):
    """Names with a meaning of their own, in place of the name of a user, client id or address."""

    DEFAULT = "<default>"
    """All names without a quota of their own."""
    ANY = "<any>"
    """In a filter: the default and all names."""

    def __str__(self) -> str:
        return self.value


EntityName = str | QuotaName


class ClientQuotaEntity(NamedTuple):
    """A user, a client id, both, or an address; each may be ``QuotaName.DEFAULT``.

    >>> from odradek import ClientQuotaEntity
    >>> str(ClientQuotaEntity(user="alice", client_id="app"))
    'user alice, client-id app'
    """

    user: EntityName | None = None
    client_id: EntityName | None = None
    ip: EntityName | None = None

    def __str__(self) -> str:
        return ", ".join(f"{kind} {name}" for kind, name in _parts(self))


class ClientQuotasApi(AdminApi):
    """Quota methods of ``Admin``."""

    async def alter_client_quotas(
        self,
        changes: Mapping[ClientQuotaEntity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
        timeout_s: float | None = None,
    ) -> None:
        """Set quotas of entities by key; None removes a quota. Other quotas are not changed.

        The keys are ``producer_byte_rate``, ``consumer_byte_rate``, ``request_percentage`` and
        ``controller_mutation_rate``, for addresses ``connection_creation_rate``. Brokers since 2.6.

        >>> from odradek import Admin, ClientQuotaEntity
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> app = ClientQuotaEntity(client_id="app")
        >>> admin.alter_client_quotas({app: {"producer_byte_rate": 1_000_000}})
        >>> admin.alter_client_quotas({app: {"producer_byte_rate": None}})
        >>> admin.close()
        """
        entries = {
            entity: AlterClientQuotasRequestEntryData(_entity_data(entity), _ops(quotas))
            for entity, quotas in changes.items()
        }

        def request(keys: Sequence[ClientQuotaEntity], timeout_ms: int) -> AlterClientQuotasRequest:
            return AlterClientQuotasRequest([entries[key] for key in keys], validate_only)

        handler: AdminApiHandler[ClientQuotaEntity, None] = AdminApiHandler(
            call="alter client quotas",
            key_name=str,
            lookup=at_any_broker,
            build_request=request,
            read_response=_read_altered,
            retry_codes=CONTROLLER_MOVED,
        )
        await self._driver.run(handler, changes, timeout_s)

    async def describe_client_quotas(
        self,
        *,
        user: EntityName | None = None,
        client_id: EntityName | None = None,
        ip: EntityName | None = None,
        strict: bool = False,
        timeout_s: float | None = None,
    ) -> dict[ClientQuotaEntity, dict[str, float]]:
        """Return the quotas of the entities that match: a name, ``QuotaName.DEFAULT`` or ``QuotaName.ANY``.

        ``strict`` excludes entities with other parts than those given: with ``user="alice"``, the quotas of
        alice and a client id. Brokers since 2.6.

        >>> from odradek import Admin
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> admin.describe_client_quotas(user="bob")
        {}
        >>> admin.close()
        """
        components = [
            ComponentData(kind, *_match(name))
            for kind, name in _parts(ClientQuotaEntity(user, client_id, ip))
        ]
        handler: AdminApiHandler[None, dict[ClientQuotaEntity, dict[str, float]]] = AdminApiHandler(
            call="describe client quotas",
            key_name=lambda _: "describe client quotas",
            lookup=at_any_broker,
            build_request=lambda keys, timeout_ms: DescribeClientQuotasRequest(components, strict),
            read_response=_read_described,
        )
        return await self._driver.run_single(handler, timeout_s)


def _parts(entity: ClientQuotaEntity) -> list[tuple[str, EntityName]]:
    parts = ((_USER, entity.user), (_CLIENT_ID, entity.client_id), (_IP, entity.ip))
    return [(kind, name) for kind, name in parts if name is not None]


def _entity_data(entity: ClientQuotaEntity) -> list[AlterClientQuotasRequestEntityData]:
    parts = _parts(entity)
    if not parts:
        raise ValueError("a quota entity must have a user, client_id or ip, got none")
    if any(name is QuotaName.ANY for _, name in parts):
        raise ValueError(f"a quota must be set for a name or QuotaName.DEFAULT, got {entity}")
    return [
        AlterClientQuotasRequestEntityData(kind, name if isinstance(name, str) else None)
        for kind, name in parts
    ]


def _ops(changes: Mapping[str, float | None]) -> list[OpData]:
    return [
        OpData(key, 0.0 if value is None else float(value), value is None) for key, value in changes.items()
    ]


def _match(name: EntityName) -> tuple[int, str | None]:
    if isinstance(name, str):
        return _EXACT, name
    return (_DEFAULT if name is QuotaName.DEFAULT else _ANY), None


def _entity(parts: Iterable[tuple[str, str | None]]) -> ClientQuotaEntity:
    names = {kind: QuotaName.DEFAULT if name is None else name for kind, name in parts}
    return ClientQuotaEntity(names.get(_USER), names.get(_CLIENT_ID), names.get(_IP))


def _read_altered(
    keys: Sequence[ClientQuotaEntity], response: AlterClientQuotasResponse
) -> Iterable[tuple[ClientQuotaEntity, ApiError | None]]:
    for entry in response.entries:
        key = _entity((part.entity_type, part.entity_name) for part in entry.entity)
        code = ErrorCode(entry.error_code)
        yield key, ApiError(code, entry.error_message) if code else None


def _read_described(
    keys: Sequence[None], response: DescribeClientQuotasResponse
) -> Iterable[tuple[None, dict[ClientQuotaEntity, dict[str, float]] | ApiError]]:
    if response.error_code:
        yield None, ApiError(ErrorCode(response.error_code), response.error_message)
        return
    yield (
        None,
        {
            _entity((part.entity_type, part.entity_name) for part in entry.entity): {
                quota.key: quota.value for quota in entry.values
            }
            for entry in response.entries or ()
        },
    )
