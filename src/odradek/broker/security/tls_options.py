"""TLS options of a listener, from the broker's ``ssl.*`` settings."""

from __future__ import annotations

from odradek.config import broker
from odradek.config.definition import LISTENER_PREFIX, Settings
from odradek.security.tls.context_source import ChangeRules
from odradek.security.tls.tls_options import KeyStoreOptions, TlsOptions, TrustStoreOptions, protocols_of

_SSL = "ssl."


def tls_options(settings: Settings, listener: str, *, is_sasl: bool = False) -> TlsOptions:
    """Return the options of a listener, for its server side and for connections to other brokers through it.

    As in Kafka, a SASL_SSL listener takes ``ssl.client.auth`` only with the listener's prefix.
    """
    overridden = settings.overridden_for(listener)
    has_own_settings = any(setting.name.startswith(_SSL) for setting in overridden)
    client_auth = settings.for_listener(listener, broker.SSL_CLIENT_AUTH)
    enabled = settings.for_listener(listener, broker.SSL_ENABLED_PROTOCOLS)
    return TlsOptions(
        KeyStoreOptions(
            settings.for_listener(listener, broker.SSL_KEYSTORE_TYPE),
            settings.for_listener(listener, broker.SSL_KEYSTORE_LOCATION),
            settings.for_listener(listener, broker.SSL_KEYSTORE_PASSWORD),
            settings.for_listener(listener, broker.SSL_KEY_PASSWORD),
            settings.for_listener(listener, broker.SSL_KEYSTORE_KEY),
            settings.for_listener(listener, broker.SSL_KEYSTORE_CERTIFICATE_CHAIN),
        ),
        TrustStoreOptions(
            settings.for_listener(listener, broker.SSL_TRUSTSTORE_TYPE),
            settings.for_listener(listener, broker.SSL_TRUSTSTORE_LOCATION),
            settings.for_listener(listener, broker.SSL_TRUSTSTORE_PASSWORD),
            settings.for_listener(listener, broker.SSL_TRUSTSTORE_CERTIFICATES),
        ),
        protocols_of(enabled, settings.for_listener(listener, broker.SSL_PROTOCOL)),
        settings.for_listener(listener, broker.SSL_CIPHER_SUITES),
        "none" if is_sasl and broker.SSL_CLIENT_AUTH not in overridden else client_auth,
        settings.for_listener(listener, broker.SSL_ENDPOINT_IDENTIFICATION_ALGORITHM),
        prefix=f"{LISTENER_PREFIX}{listener.lower()}.{_SSL}" if has_own_settings else _SSL,
        protocols_name="enabled.protocols" if enabled else "protocol",
    )


def change_rules(settings: Settings, listener: str) -> ChangeRules:
    """Return the changes that a new certificate of a listener may make."""
    return ChangeRules(
        settings.for_listener(listener, broker.SSL_ALLOW_DN_CHANGES),
        settings.for_listener(listener, broker.SSL_ALLOW_SAN_CHANGES),
    )
