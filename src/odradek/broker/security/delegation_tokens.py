"""Delegation tokens of the cluster on this broker: read from the store, changed there, and kept up to date.

All tokens are read at start and under each new store session; after that, notifications in the store name the
token that changed, whoever changed it. Changes and notifications are processed one at a time. The controller
removes expired tokens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Final

from odradek.broker.scheduled_tasks import ScheduledTask
from odradek.config import broker as settings
from odradek.config.definition import Settings
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.secret import Secret
from odradek.ports.clock import Clock
from odradek.ports.entropy import Entropy
from odradek.security.principal import KafkaPrincipal
from odradek.security.sasl.scram_server import TokenCredential
from odradek.security.tokens.token_information import DelegationToken
from odradek.security.tokens.token_manager import DelegationTokenManager, Expiration, TokenSettings
from odradek.store.port import (
    BadPath,
    BadPayload,
    BadVersion,
    NoNode,
    SessionExpired,
    Store,
    StoreError,
    StoreProvider,
    TooLarge,
    Unavailable,
    WatchedEvent,
)
from odradek.store.tokens import (
    VersionedToken,
    create_token,
    delete_expired_token_changes,
    delete_token,
    ensure_token_paths,
    read_all_tokens,
    read_token,
    update_token,
    watch_token_changes,
)
from odradek.telemetry import events

RETRY_MS: Final = 1_000
"""Wait before notifications are read again while the store is unavailable."""
UPDATE_ATTEMPTS_MAX: Final = 10
CHANGES_CHECK_MS: Final = 300_000
"""Interval of the removal of old notifications."""

log = events.logger("delegation_tokens")


def make_delegation_tokens(
    secret: Secret, values: Settings, stores: StoreProvider, clock: Clock, entropy: Entropy
) -> DelegationTokens:
    """Return the delegation tokens that a secret signs."""
    limits = TokenSettings(
        values[settings.DELEGATION_TOKEN_MAX_LIFETIME_MS], values[settings.DELEGATION_TOKEN_EXPIRY_TIME_MS]
    )
    return DelegationTokens(stores, DelegationTokenManager(secret, limits, entropy.token), clock)


class DelegationTokens:
    def __init__(self, stores: StoreProvider, manager: DelegationTokenManager, clock: Clock) -> None:
        self._stores = stores
        self._manager = manager
        self._clock = clock
        self._versions: dict[str, int] = {}
        """Versions of the nodes as last read or written."""
        self._last_seen = ""
        self._has_changed = False
        self._task: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()

    # Reading.

    async def load(self) -> None:
        """Read all tokens, and watch for changes from now on."""
        await self.reload(self._stores.store)

    async def reload(self, store: Store) -> None:
        """Read all tokens again under a new session."""
        async with self._lock:
            await ensure_token_paths(store)
            # The watch before the tokens: what changes meanwhile is read again.
            changes = await watch_token_changes(store, watcher=self._on_notification)
            self._last_seen = changes[-1].name if changes else ""
            tokens = {token.information.token_id: token for token in await read_all_tokens(store)}
            for token_id in self._versions.keys() - tokens.keys():
                self._put(token_id, None)
            for token_id, token in tokens.items():
                self._put(token_id, token)
        log.info("delegation_tokens_loaded", tokens=len(tokens))

    def credential(self, mechanism: str, token_id: str) -> TokenCredential | None:
        """Return the SCRAM credential of a token; None if it is unknown or expired."""
        return self._manager.cache.credential(mechanism, token_id, self._clock.wall_ms())

    def describe(
        self,
        requester: KafkaPrincipal,
        owners: Collection[KafkaPrincipal] | None,
        may_describe_token: Callable[[str], bool],
        may_describe_owner: Callable[[KafkaPrincipal], bool],
    ) -> list[DelegationToken]:
        """Return the tokens that concern one of ``owners`` and that the requester may see."""
        return self._manager.describe(requester, owners, may_describe_token, may_describe_owner)

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
                    log.error("token_change_failed", reason=str(error))
                    await self._clock.sleep_ms(RETRY_MS)
                    self._has_changed = True
        except StoreError as error:
            # A new session reads everything again.
            log.error("token_change_failed", reason=str(error))
        finally:
            self._task = None

    async def _apply_new(self) -> None:
        store = self._stores.store
        for change in await watch_token_changes(store, self._last_seen, self._on_notification):
            if change.token_id is not None:
                await self._read_again(store, change.token_id)
            self._last_seen = change.name

    async def _read_again(self, store: Store, token_id: str) -> None:
        try:
            self._put(token_id, await read_token(store, token_id))
        except (BadPath, BadPayload) as error:
            # A token that cannot be read authenticates nobody.
            log.error("delegation_token_not_decoded", reason=str(error))
            self._put(token_id, None)

    def _put(self, token_id: str, token: VersionedToken | None) -> None:
        if token is None:
            self._versions.pop(token_id, None)
            self._manager.cache.remove(token_id)
        else:
            self._versions[token_id] = token.version
            self._manager.cache.put(token.information)

    # Changes.

    async def create(
        self,
        owner: KafkaPrincipal,
        requester: KafkaPrincipal,
        renewers: Sequence[KafkaPrincipal],
        max_lifetime_ms: int,
    ) -> DelegationToken:
        """Create a token. Raises BrokerError, and StoreError if the store is unavailable."""
        async with self._lock:
            token = self._manager.create(owner, requester, renewers, max_lifetime_ms, self._clock.wall_ms())
            token_id = token.information.token_id
            try:
                self._put(token_id, await create_token(self._stores.store, token.information))
            except StoreError as error:
                raise _error_of(error) from error
        log.info("delegation_token_created", token=token_id, owner=str(owner), requester=str(requester))
        return token

    async def renew(self, principal: KafkaPrincipal, hmac: bytes, period_ms: int) -> int:
        """Renew a token; return when it expires. Raises as ``create`` does."""

        def renewal() -> Expiration:
            information = self._manager.renew(principal, hmac, period_ms, self._clock.wall_ms())
            return Expiration(information.token_id, information, information.expiry_timestamp)

        return await self._change("delegation_token_renewed", renewal)

    async def expire(self, principal: KafkaPrincipal, hmac: bytes, period_ms: int) -> int:
        """Let a token expire after a period, at once if it is negative; return when. Raises as ``create``."""
        return await self._change(
            "delegation_token_expired",
            lambda: self._manager.expire(principal, hmac, period_ms, self._clock.wall_ms()),
        )

    async def remove_expired(self) -> None:
        """Remove the expired tokens from the store; done by the controller."""
        for token_id in self._manager.expired(self._clock.wall_ms()):
            try:
                await self._change("delegation_token_removed", lambda: self._removal(token_id))  # noqa: B023
            except BrokerError as error:
                log.info("delegation_token_kept", token=token_id, reason=str(error))

    def _removal(self, token_id: str) -> Expiration:
        """Return the removal of a token that is still expired: another broker may have changed it."""
        token, now_ms = self._manager.cache.token(token_id), self._clock.wall_ms()
        if token is None or not token.information.is_expired(now_ms):
            raise BrokerError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
        return Expiration(token_id, None, now_ms)

    async def _change(self, event: str, decide: Callable[[], Expiration]) -> int:
        """Write what is decided about a token; decide again if another broker has changed it meanwhile."""
        async with self._lock:
            for _ in range(UPDATE_ATTEMPTS_MAX):
                change = decide()
                store = self._stores.store
                try:
                    self._put(change.token_id, await self._write(store, change))
                except (BadVersion, NoNode) as error:
                    if error.op_index:  # not the token's node, but the parent of the notification
                        raise _error_of(error) from error
                except StoreError as error:
                    raise _error_of(error) from error
                else:
                    log.info(event, token=change.token_id, expires_at_ms=change.expiry_timestamp)
                    return change.expiry_timestamp
                await self._read_again(store, change.token_id)
        raise BrokerError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"write conflict in each of {UPDATE_ATTEMPTS_MAX} attempts"
        )

    async def _write(self, store: Store, change: Expiration) -> VersionedToken | None:
        version = self._versions[change.token_id]
        if change.information is not None:
            return await update_token(store, change.information, version)
        await delete_token(store, change.token_id, version)
        return None

    async def delete_expired_changes(self) -> None:
        await delete_expired_token_changes(self._stores.store, self._clock.wall_ms())

    def tasks(self, values: Settings, is_controller: Callable[[], bool]) -> list[ScheduledTask]:
        """Return the periodic tasks. Only the controller removes expired tokens."""

        async def remove_expired() -> None:
            if is_controller():
                await self.remove_expired()

        interval_ms = values[settings.DELEGATION_TOKEN_EXPIRY_CHECK_INTERVAL_MS]
        return [
            ScheduledTask("remove_expired_tokens", interval_ms, remove_expired),
            ScheduledTask("delete_expired_token_changes", CHANGES_CHECK_MS, self.delete_expired_changes),
        ]


def _error_of(error: StoreError) -> StoreError | BrokerError:
    """Return the error for a rejected write; a store that is unavailable has its own."""
    if isinstance(error, Unavailable | SessionExpired):
        return error
    log.error("delegation_token_not_written", reason=str(error))
    code = ErrorCode.INVALID_REQUEST if isinstance(error, TooLarge) else ErrorCode.UNKNOWN_SERVER_ERROR
    return BrokerError(code, str(error))
