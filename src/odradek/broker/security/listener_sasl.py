"""SASL of one listener: its mechanisms, and what clients are checked with, from the settings.

Passwords of PLAIN are in ``listener.name.{listener}.plain.sasl.jaas.config`` or in a users file; SCRAM
credentials and delegation tokens are in the store, the same for all listeners; keys of access tokens come
from a file or URL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from odradek.broker.security.key_sets import KeySetSource, ReadText, TokenValidation
from odradek.config import broker as settings
from odradek.config.definition import Settings
from odradek.ports.clock import Clock
from odradek.security.sasl.jaas import JaasEntry, parse_jaas_config
from odradek.security.sasl.jwt_validator import JwtSettings, JwtValidator
from odradek.security.sasl.mechanism import OAUTHBEARER, PLAIN, SCRAM_SHA_256, SCRAM_SHA_512
from odradek.security.sasl.mechanisms import ServerCredentials, check_login_module, check_mechanisms
from odradek.security.sasl.plain_users import PlainUsers, parse_users
from odradek.security.sasl.scram_credential import ScramCredential
from odradek.security.sasl.scram_server import DECOY_KEY_SIZE, ScramCredentials, TokenCredential

SCRAM_MECHANISMS: Final = (SCRAM_SHA_256, SCRAM_SHA_512)

VALIDATOR_CLASSES: Final = frozenset(
    {
        None,
        "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerValidatorCallbackHandler",
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler",
    }
)
"""Kafka's class that verifies signed tokens; no other can be loaded."""


@dataclass(slots=True)
class CredentialStore:
    """Credentials that all listeners share, and what their checks need."""

    scram: Callable[[str, str], ScramCredential | None]
    """Returns the credential of a mechanism and user."""
    token: Callable[[str, str], TokenCredential | None]
    """Returns the credential of a mechanism and the id of a delegation token that is not expired."""
    random_bytes: Callable[[int], bytes]
    clock: Clock
    read_file: Callable[[str], str]
    """Reads a local file at start; raises OSError."""
    read_text: ReadText
    key_sets: dict[str, KeySetSource] = field(default_factory=dict)
    """By URL, loaded by the caller before clients are served."""
    decoy_key: bytes = b""

    def __post_init__(self) -> None:
        self.decoy_key = self.random_bytes(DECOY_KEY_SIZE)

    def key_set(self, url: str, values: Settings) -> KeySetSource:
        source = self.key_sets.get(url)
        if source is None:
            source = self.key_sets[url] = KeySetSource(
                url,
                self.read_text,
                self.clock,
                values[settings.SASL_OAUTHBEARER_JWKS_ENDPOINT_RETRY_BACKOFF_MS],
                values[settings.SASL_OAUTHBEARER_JWKS_ENDPOINT_RETRY_BACKOFF_MAX_MS],
            )
        return source


def enabled_mechanisms(values: Settings, listener: str) -> tuple[str, ...]:
    """Return the mechanisms of a listener. Raises ValueError for those that do not exist here."""
    names = values.for_listener(listener, settings.SASL_ENABLED_MECHANISMS)
    if not names:
        raise ValueError("sasl.enabled.mechanisms must name at least one mechanism")
    return check_mechanisms(names)


def jaas_entry(values: Settings, listener: str, mechanism: str) -> JaasEntry | None:
    """Return the JAAS configuration of a mechanism of a listener. Raises ValueError."""
    config = values.for_mechanism(listener, mechanism, settings.SASL_JAAS_CONFIG)
    return None if config is None else check_login_module(mechanism, parse_jaas_config(config.reveal()))


def server_credentials(values: Settings, listener: str, store: CredentialStore) -> ServerCredentials:
    """Return what the clients of a listener are checked with. Raises ValueError or OSError."""
    mechanisms = enabled_mechanisms(values, listener)
    return ServerCredentials(
        _plain(values, listener, store) if PLAIN in mechanisms else None,
        _scram(mechanisms, store),
        _oauthbearer(values, listener, store) if OAUTHBEARER in mechanisms else None,
    )


def _plain(values: Settings, listener: str, store: CredentialStore) -> Callable[[str, str], bool]:
    entry = jaas_entry(values, listener, PLAIN)
    users = {} if entry is None else entry.users()
    path = values.for_listener(listener, settings.ODRADEK_SASL_PLAIN_USERS_FILE)
    if path:
        users.update(parse_users(store.read_file(path)))
    if entry is None and not path:
        raise ValueError(
            f"listener {listener} with PLAIN requires "
            f"listener.name.{listener.lower()}.plain.sasl.jaas.config or odradek.sasl.plain.users.file"
        )
    return PlainUsers(users, store.random_bytes(32)).verify


def _scram(mechanisms: tuple[str, ...], store: CredentialStore) -> Mapping[str, ScramCredentials]:
    def of(mechanism: str) -> ScramCredentials:
        return ScramCredentials(
            lambda name: store.scram(mechanism, name),
            lambda token_id: store.token(mechanism, token_id),
            store.random_bytes,
            store.decoy_key,
        )

    return {mechanism: of(mechanism) for mechanism in SCRAM_MECHANISMS if mechanism in mechanisms}


def _oauthbearer(values: Settings, listener: str, store: CredentialStore) -> TokenValidation:
    handler = values.for_mechanism(listener, OAUTHBEARER, settings.SASL_SERVER_CALLBACK_HANDLER_CLASS)
    if handler not in VALIDATOR_CLASSES:
        raise ValueError(
            "sasl.server.callback.handler.class must be empty or Kafka's "
            f"OAuthBearerValidatorCallbackHandler, got {handler}: classes are not loaded from configuration"
        )
    jaas_entry(values, listener, OAUTHBEARER)  # refuses unsecured tokens
    url = values.for_listener(listener, settings.SASL_OAUTHBEARER_JWKS_ENDPOINT_URL)
    if not url:
        raise ValueError(
            f"listener {listener} with OAUTHBEARER requires sasl.oauthbearer.jwks.endpoint.url: tokens "
            "without a verified signature are not accepted"
        )
    keys = store.key_set(url, values)
    audiences = values.for_listener(listener, settings.SASL_OAUTHBEARER_EXPECTED_AUDIENCE)
    jwt = JwtSettings(
        values.for_listener(listener, settings.SASL_OAUTHBEARER_EXPECTED_ISSUER),
        frozenset(audiences or ()),
        values.for_listener(listener, settings.SASL_OAUTHBEARER_CLOCK_SKEW_SECONDS) * 1000,
        values.for_listener(listener, settings.SASL_OAUTHBEARER_SCOPE_CLAIM_NAME),
        values.for_listener(listener, settings.SASL_OAUTHBEARER_SUB_CLAIM_NAME),
    )
    return TokenValidation(JwtValidator(jwt, keys.current, store.clock.wall_ms), keys)
