"""TLS options of a client, from its ``ssl.*`` options."""

from __future__ import annotations

from collections.abc import Callable

from odradek.config.client import security
from odradek.config.definition import Settings
from odradek.model.errors import ConfigError
from odradek.model.secret import Secret
from odradek.security.tls.tls_options import (
    PEM,
    KeyStoreOptions,
    TlsOptions,
    TrustStoreOptions,
    protocols_of,
)

ReadFile = Callable[[str], bytes]


def tls_options(settings: Settings, read_file: ReadFile) -> TlsOptions:
    """Return the TLS options of a client's connections to brokers. Raises ConfigError."""
    enabled = settings[security.SSL_ENABLED_PROTOCOLS]
    suites = settings[security.SSL_CIPHER_SUITES]
    return TlsOptions(
        _key_store(settings, read_file),
        _trust_store(settings),
        protocols_of(enabled, settings[security.SSL_PROTOCOL]),
        suites or (),
        endpoint_identification=settings[security.SSL_ENDPOINT_IDENTIFICATION_ALGORITHM],
        protocols_name="enabled.protocols" if enabled else "protocol",
    )


def _key_store(settings: Settings, read_file: ReadFile) -> KeyStoreOptions:
    """Return the key store, or the files of certificate and key in its place."""
    certificate, key = settings[security.SSL_CERTIFICATE_LOCATION], settings[security.SSL_KEY_LOCATION]
    if certificate is None and key is None:
        return KeyStoreOptions(
            settings[security.SSL_KEYSTORE_TYPE],
            settings[security.SSL_KEYSTORE_LOCATION],
            settings[security.SSL_KEYSTORE_PASSWORD],
            settings[security.SSL_KEY_PASSWORD],
            settings[security.SSL_KEYSTORE_KEY],
            settings[security.SSL_KEYSTORE_CERTIFICATE_CHAIN],
        )
    if certificate is None or key is None:
        raise ConfigError(["ssl.certificate.location and ssl.key.location must be set together"])
    return KeyStoreOptions(
        PEM,
        key_password=settings[security.SSL_KEY_PASSWORD],
        key=Secret(_text_of("ssl.key.location", key, read_file)),
        certificate_chain=Secret(_text_of("ssl.certificate.location", certificate, read_file)),
    )


def _text_of(name: str, path: str, read_file: ReadFile) -> str:
    try:
        return read_file(path).decode()
    except (OSError, ValueError) as error:
        raise ConfigError([f"{name}: {path} cannot be read: {error}"]) from None


def _trust_store(settings: Settings) -> TrustStoreOptions:
    location = settings[security.SSL_CA_LOCATION]
    if location is not None:
        return TrustStoreOptions(PEM, location)
    return TrustStoreOptions(
        settings[security.SSL_TRUSTSTORE_TYPE],
        settings[security.SSL_TRUSTSTORE_LOCATION],
        settings[security.SSL_TRUSTSTORE_PASSWORD],
        settings[security.SSL_TRUSTSTORE_CERTIFICATES],
    )
