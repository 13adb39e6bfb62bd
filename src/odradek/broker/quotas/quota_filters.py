"""Filters of DescribeClientQuotas: which entities match."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from odradek.broker.quotas.entity_paths import CLIENT_ID, IP, USER
from odradek.model.errors import BrokerError, ErrorCode

EXACT: Final = 0
DEFAULT_ENTITY: Final = 1
ANY: Final = 2


class FilterComponent(Protocol):
    """Requirement of a request on one entity type."""

    @property
    def entity_type(self) -> str: ...
    @property
    def match_type(self) -> int: ...
    @property
    def match(self) -> str | None: ...


class NameFilter(NamedTuple):
    """Matches one name, of which None is the default, or any name."""

    is_any: bool
    name: str | None = None

    def matches(self, name: str | None) -> bool:
        return self.is_any or self.name == name


class QuotaFilter(NamedTuple):
    """Filters by entity type, which an entity must have. A strict one excludes entities with other types."""

    user: NameFilter | None
    client_id: NameFilter | None
    ip: NameFilter | None
    strict: bool

    @property
    def includes_users(self) -> bool:
        """True if entities of a user only may match."""
        return self.ip is None and self.client_id is None and self._may_have(self.user)

    @property
    def includes_clients(self) -> bool:
        """True if entities of a client id only may match."""
        return self.ip is None and self.user is None and self._may_have(self.client_id)

    @property
    def includes_pairs(self) -> bool:
        """True if entities of both may match."""
        return self.ip is None and self._may_have(self.user) and self._may_have(self.client_id)

    @property
    def includes_ips(self) -> bool:
        return self.user is None and self.client_id is None and self._may_have(self.ip)

    def _may_have(self, name: NameFilter | None) -> bool:
        return name is not None or not self.strict


def parse_filter(components: Sequence[FilterComponent], strict: bool) -> QuotaFilter:
    """Return the filter of a request. Raises INVALID_REQUEST and UNSUPPORTED_VERSION, like Kafka."""
    _check_types([component.entity_type for component in components])
    names = {component.entity_type: _name_filter(component) for component in components}
    return QuotaFilter(names.get(USER), names.get(CLIENT_ID), names.get(IP), strict)


def _name_filter(component: FilterComponent) -> NameFilter:
    if component.match_type == ANY:
        return NameFilter(is_any=True)
    if component.match_type == DEFAULT_ENTITY:
        return NameFilter(is_any=False)
    if component.match_type != EXACT:
        raise _invalid(f"match type must be 0, 1 or 2, got {component.match_type}")
    if component.match is None or component.match in ("", ".", ".."):
        raise _invalid(f"exact match must be a name, got {component.match!r}")
    return NameFilter(is_any=False, name=component.match)


def _check_types(types: Sequence[str]) -> None:
    """Reject invalid combinations of entity types."""
    for entity_type in types:
        if not entity_type:
            raise _invalid("entity type must be non-empty, got ''")
        if entity_type not in (USER, CLIENT_ID, IP):
            raise BrokerError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"entity type must be user, client-id or ip, got '{entity_type[:249]}'",
            )
        if types.count(entity_type) > 1:
            raise _invalid(f"each entity type must appear once, got {entity_type} twice")
    if IP in types and len(types) > 1:
        raise _invalid(f"entity type ip must not be combined with others, got {', '.join(types)}")


def _invalid(message: str) -> BrokerError:
    return BrokerError(ErrorCode.INVALID_REQUEST, message)
