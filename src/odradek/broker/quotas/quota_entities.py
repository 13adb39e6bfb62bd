"""Quota entities, and which of several quotas applies to a client.

A quota is set for a user and client id, a user, or a client id; each name may be the default, which applies
to all names without a quota of their own. The most specific quota applies, in this order:

====================================  ==========================================
entity                                shared by
====================================  ==========================================
user and client id                    the connections of both
user and default client id            the connections of both
user                                  all clients of the user
default user and client id            the connections of both
default user and default client id    the connections of both
default user                          all clients of the user
client id                             that client id of all users
default client id                     that client id of all users
====================================  ==========================================

As in Kafka, a client without a client id has none of the quotas of client ids, not even the default.
"""

from __future__ import annotations

import hashlib
from typing import Final, NamedTuple

NAME_CHARACTERS_MAX: Final = 256
"""Longer names are counted by their hash."""


class DefaultName:
    """The name of a default entity; no name of a user or client is equal to it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<default>"


DEFAULT: Final = DefaultName()

EntityName = str | DefaultName


class QuotaEntity(NamedTuple):
    """A user, a client id, or both. Names are as clients send them."""

    user: EntityName | None
    client_id: EntityName | None


class AppliedQuota(NamedTuple):
    """A quota that applies to a client, and which of user and client id it counts by; others are empty."""

    counted_by: tuple[str, str]
    bound: float


class QuotaTable:
    """Quotas of one type by entity."""

    __slots__ = ("_bounds", "_pair_count")

    def __init__(self) -> None:
        self._bounds: dict[tuple[EntityName | None, EntityName | None], float] = {}
        self._pair_count = 0
        """Number of quotas of both a user and a client id."""

    def __len__(self) -> int:
        return len(self._bounds)

    def update(self, entity: QuotaEntity, bound: float | None) -> None:
        """Set a quota; None removes it."""
        change = (bound is not None) - (entity in self._bounds)
        if bound is None:
            self._bounds.pop(entity, None)
        else:
            self._bounds[entity] = bound
        if entity.user is not None and entity.client_id is not None:
            self._pair_count += change

    def find(self, user: str, client_id: str) -> AppliedQuota | None:
        """Return the most specific quota of a client, if any."""
        bounds = self._bounds
        if client_id and self._pair_count:
            bound = bounds.get((user, client_id))
            if bound is None:
                bound = bounds.get((user, DEFAULT))
            if bound is not None:
                return _applied(user, client_id, bound)
        bound = bounds.get((user, None))
        if bound is not None:
            return _applied(user, "", bound)
        if client_id and self._pair_count:
            bound = bounds.get((DEFAULT, client_id))
            if bound is None:
                bound = bounds.get((DEFAULT, DEFAULT))
            if bound is not None:
                return _applied(user, client_id, bound)
        bound = bounds.get((DEFAULT, None))
        if bound is not None:
            return _applied(user, "", bound)
        if client_id:
            bound = bounds.get((None, client_id))
            if bound is None:
                bound = bounds.get((None, DEFAULT))
            if bound is not None:
                return _applied("", client_id, bound)
        return None


def _applied(user: str, client_id: str, bound: float) -> AppliedQuota:
    if len(user) > NAME_CHARACTERS_MAX or len(client_id) > NAME_CHARACTERS_MAX:
        return AppliedQuota((_shorten(user), _shorten(client_id)), bound)
    return AppliedQuota((user, client_id), bound)


def _shorten(name: str) -> str:
    """Return a name to count by. Clients choose long ids; what is remembered of each must be bounded."""
    if len(name) <= NAME_CHARACTERS_MAX:
        return name
    return hashlib.sha256(name.encode(errors="replace")).hexdigest()
