"""ACLs of the cluster on this broker: read from the store, changed there, and kept up to date.

All ACLs are read at start and under each new store session; after that, notifications in the store name the
pattern that changed, whoever changed it. Changes and notifications are processed one at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from odradek.config import broker as settings
from odradek.config.authorizer import (
    ALLOW_EVERYONE_IF_NO_ACL_FOUND,
    AUTHORIZER_BY_NAME,
    SUPER_USERS,
)
from odradek.config.definition import parse_settings
from odradek.config.dynamic.broker_config import DynamicBrokerConfig
from odradek.model.acl_enums import (
    CLUSTER_NAME,
    AclPermissionType,
    AclResourceType,
    PatternType,
)
from odradek.model.acl_operations import AclOperation
from odradek.model.errors import BrokerError, ErrorCode
from odradek.ports.clock import Clock
from odradek.security.acls.authorizer import AclAuthorizer, parse_super_users
from odradek.security.acls.bindings import AccessControlEntry, AclBinding, ResourcePattern
from odradek.security.acls.filters import AclBindingFilter
from odradek.security.principal import parse_principal
from odradek.store.acls import (
    Entries,
    VersionedAcls,
    delete_expired_acl_changes,
    ensure_acl_paths,
    read_acls_or_deny,
    read_all_acls,
    update_acls,
    watch_acl_changes,
)
from odradek.store.layout.acl_znodes import PATTERN_TYPES, RESOURCE_TYPES
from odradek.store.port import (
    BadPath,
    SessionExpired,
    Store,
    StoreError,
    StoreProvider,
    TooLarge,
    Unavailable,
    WatchedEvent,
)
from odradek.telemetry import events

RETRY_MS: Final = 1_000
"""Wait before notifications are read again while the store is unavailable."""

log = events.logger("acls")


class DeletedAcl(NamedTuple):
    """A binding that a filter selected; ``error`` if it could not be deleted."""

    binding: AclBinding
    error: BrokerError | None


def make_acl_manager(config: DynamicBrokerConfig, stores: StoreProvider, clock: Clock) -> AclManager | None:
    """Return the ACL manager; None without an authorizer."""
    if not config.broker[settings.AUTHORIZER_CLASS_NAME]:
        return None
    values = parse_settings(AUTHORIZER_BY_NAME, config.static)
    authorizer = AclAuthorizer(
        parse_super_users(values[SUPER_USERS]),
        allow_everyone_if_no_acl=values[ALLOW_EVERYONE_IF_NO_ACL_FOUND],
    )
    return AclManager(stores, authorizer, clock)


class AclManager:
    def __init__(self, stores: StoreProvider, authorizer: AclAuthorizer, clock: Clock) -> None:
        self.authorizer = authorizer
        self._stores = stores
        self._clock = clock
        self._versions: dict[ResourcePattern, int] = {}
        """Versions of the nodes as last read or written."""
        self._last_seen: dict[PatternType, str] = {}
        self._has_changed = False
        self._task: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()

    # Reading.

    async def load(self) -> None:
        """Read all ACLs, and watch for changes from now on."""
        await self.reload(self._stores.store)

    async def reload(self, store: Store) -> None:
        """Read all ACLs again under a new session."""
        async with self._lock:
            await ensure_acl_paths(store)
            # The watches before the ACLs: what changes meanwhile is read again.
            for pattern_type in PATTERN_TYPES:
                changes = await watch_acl_changes(store, pattern_type, self._on_notification)
                self._last_seen[pattern_type] = changes[-1].name if changes else ""
            acls = await read_all_acls(store)
            self._versions = {
                pattern: versioned.version
                for pattern, versioned in acls.items()
                if versioned.version is not None
            }
            self.authorizer.replace({pattern: versioned.entries for pattern, versioned in acls.items()})
        log.info("acls_loaded", patterns=len(acls))

    async def delete_expired(self) -> None:
        await delete_expired_acl_changes(self._stores.store, self._clock.wall_ms())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _on_notification(self, event: WatchedEvent) -> None:
        self._has_changed = True
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._process_notifications())

    async def _process_notifications(self) -> None:
        try:
            while self._has_changed:
                self._has_changed = False
                try:
                    async with self._lock:
                        await self._apply_new()
                except Unavailable as error:
                    log.error("acl_change_failed", reason=str(error))
                    await self._clock.sleep_ms(RETRY_MS)
                    self._has_changed = True
        except StoreError as error:
            # A new session reads everything again.
            log.error("acl_change_failed", reason=str(error))
        finally:
            self._task = None

    async def _apply_new(self) -> None:
        store = self._stores.store
        for pattern_type in PATTERN_TYPES:
            for change in await watch_acl_changes(store, pattern_type, self._on_notification):
                if change.name > self._last_seen[pattern_type]:
                    if change.pattern is not None:
                        self._put(change.pattern, await read_acls_or_deny(store, change.pattern))
                    self._last_seen[pattern_type] = change.name

    def _put(self, pattern: ResourcePattern, acls: VersionedAcls) -> None:
        if acls.version is None:
            self._versions.pop(pattern, None)
        else:
            self._versions[pattern] = acls.version
        if self.authorizer.entries(pattern) != acls.entries:
            self.authorizer.put(pattern, acls.entries)
            log.info("acls_changed", pattern=str(pattern), entries=len(acls.entries))

    # Changes.

    async def create(self, bindings: Sequence[AclBinding]) -> list[BrokerError | None]:
        """Create bindings; return the error of each, or None. Those of one pattern are one write."""
        errors = [_problem(binding) for binding in bindings]
        added: dict[ResourcePattern, Entries] = {}
        for binding, error in zip(bindings, errors, strict=True):
            if error is None:
                added[binding.pattern] = added.get(binding.pattern, frozenset()) | {binding.entry}
        failed: dict[ResourcePattern, BrokerError] = {}
        async with self._lock:
            for pattern, entries in added.items():
                error = await self._change(pattern, entries.__or__)
                if error is not None:
                    failed[pattern] = error
        return [
            failed.get(binding.pattern) if error is None else error
            for binding, error in zip(bindings, errors, strict=True)
        ]

    async def delete(self, filters: Sequence[AclBindingFilter]) -> list[list[DeletedAcl]]:
        """Delete the bindings that filters select; return those of each filter, the first that selects one.

        A pattern that a filter names exactly is read from the store. Others are those that this broker knows.
        """
        deleted: list[list[DeletedAcl]] = [[] for _ in filters]
        async with self._lock:
            for pattern, indexes in self._selected_patterns(filters).items():
                await self._delete_of(pattern, [(index, filters[index]) for index in indexes], deleted)
        return deleted

    def _selected_patterns(self, filters: Sequence[AclBindingFilter]) -> Mapping[ResourcePattern, list[int]]:
        """Return the patterns that filters may select, with the indexes of the filters."""
        selected: dict[ResourcePattern, list[int]] = {}
        for index, each in enumerate(filters):
            for pattern in each.pattern.candidates() or self.authorizer.patterns():
                if each.pattern.matches(pattern):
                    selected.setdefault(pattern, []).append(index)
        return selected

    async def _delete_of(
        self,
        pattern: ResourcePattern,
        filters: Sequence[tuple[int, AclBindingFilter]],
        deleted: list[list[DeletedAcl]],
    ) -> None:
        removed: dict[AccessControlEntry, int] = {}

        def remaining(entries: Entries) -> Entries:
            removed.clear()  # the last attempt counts
            for index, each in filters:
                for entry in entries:
                    if entry not in removed and each.entry.matches(entry):
                        removed[entry] = index
            return entries - removed.keys()

        error = await self._change(pattern, remaining)
        for entry, index in sorted(removed.items()):
            deleted[index].append(DeletedAcl(AclBinding(pattern, entry), error))

    async def _change(
        self, pattern: ResourcePattern, change: Callable[[Entries], Entries]
    ) -> BrokerError | None:
        """Change the entries of a pattern; return the error."""
        version = self._versions.get(pattern)
        current = None if version is None else VersionedAcls(self.authorizer.entries(pattern), version)
        try:
            self._put(pattern, await update_acls(self._stores.store, pattern, change, current))
        except StoreError as error:
            log.error("acls_not_changed", pattern=str(pattern), reason=str(error))
            return BrokerError(_code_of(error), str(error))
        return None


def _problem(binding: AclBinding) -> BrokerError | None:
    """Return the error of a binding that cannot be created."""
    pattern, entry = binding
    reason = _pattern_problem(pattern)
    if reason is None:
        try:
            parse_principal(entry.principal)
        except ValueError as error:
            reason = f"principal {error}"
        if entry.operation in (AclOperation.UNKNOWN, AclOperation.ANY):
            reason = f"operation must be a single operation or ALL, got {entry.operation.name}"
        elif entry.permission_type not in (AclPermissionType.ALLOW, AclPermissionType.DENY):
            reason = f"permission type must be ALLOW or DENY, got {entry.permission_type.name}"
        elif not entry.host:
            reason = "host must be an IP address or '*', got ''"
    return None if reason is None else BrokerError(ErrorCode.INVALID_REQUEST, reason)


def _pattern_problem(pattern: ResourcePattern) -> str | None:
    resource_type, name, pattern_type = pattern
    if resource_type not in RESOURCE_TYPES:
        return f"resource type must be that of a resource, got {resource_type.name}"
    if pattern_type not in PATTERN_TYPES:
        return f"pattern type must be LITERAL or PREFIXED, got {pattern_type.name}"
    if not name or "/" in name:
        return f"resource name must be non-empty and have no '/', got {name[:249]!r}"
    if resource_type is AclResourceType.CLUSTER and name != CLUSTER_NAME:
        return f"name of the cluster must be {CLUSTER_NAME}, got {name[:249]!r}"
    return None


def _code_of(error: StoreError) -> ErrorCode:
    """Return the error for a write that the store rejected, or that may be repeated."""
    if isinstance(error, BadPath | TooLarge):
        return ErrorCode.INVALID_REQUEST
    if isinstance(error, Unavailable | SessionExpired):
        return ErrorCode.KAFKA_STORAGE_ERROR
    return ErrorCode.UNKNOWN_SERVER_ERROR
