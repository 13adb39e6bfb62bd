"""TLS to ZooKeeper by Kafka's ``zookeeper.ssl.*`` settings, with PEM or PKCS12 files.

A PEM key store is one file with the private key and the certificate chain; its password is that of the key.
``zookeeper.ssl.protocol`` is the version, unless ``zookeeper.ssl.enabled.protocols`` lists them.
"""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Final

from odradek.config import broker
from odradek.config.definition import Setting, Settings
from odradek.security.tls.tls_context import create_context
from odradek.security.tls.tls_options import (
    JKS,
    PEM,
    PKCS12,
    KeyStoreOptions,
    TlsOptions,
    TrustStoreOptions,
    protocols_of,
)

_PREFIX: Final = "zookeeper.ssl."
_TYPES_BY_SUFFIX: Final = {
    ".pem": PEM,
    ".crt": PEM,
    ".cert": PEM,
    ".key": PEM,
    ".p12": PKCS12,
    ".pfx": PKCS12,
    ".jks": JKS,
}
_NO_HOST_NAME_CHECK: Final = ("", "none")


def create_tls_context(settings: Settings) -> ssl.SSLContext:
    """Create the TLS context of the settings; raises ``ConfigError`` for all that is not supported."""
    return create_context(tls_options(settings), lambda path: Path(path).read_bytes(), server_side=False)


def tls_options(settings: Settings) -> TlsOptions:
    """Return the TLS options of sessions with ZooKeeper."""
    enabled = settings[broker.ZOOKEEPER_SSL_ENABLED_PROTOCOLS]
    suites = settings[broker.ZOOKEEPER_SSL_CIPHER_SUITES]
    algorithm = settings[broker.ZOOKEEPER_SSL_ENDPOINT_IDENTIFICATION_ALGORITHM].lower()
    return TlsOptions(
        _key_store(settings),
        _trust_store(settings),
        protocols_of(enabled, settings[broker.ZOOKEEPER_SSL_PROTOCOL]),
        suites or (),
        endpoint_identification="" if algorithm in _NO_HOST_NAME_CHECK else algorithm,
        prefix=_PREFIX,
        protocols_name="enabled.protocols" if enabled else "protocol",
        key_password_name="keystore.password",
    )


def _key_store(settings: Settings) -> KeyStoreOptions:
    location = settings[broker.ZOOKEEPER_SSL_KEYSTORE_LOCATION]
    if location is None:
        return KeyStoreOptions()
    password = settings[broker.ZOOKEEPER_SSL_KEYSTORE_PASSWORD]
    store_type = _store_type(settings, broker.ZOOKEEPER_SSL_KEYSTORE_TYPE, location)
    if store_type == PEM:
        return KeyStoreOptions(PEM, location, key_password=password)
    return KeyStoreOptions(store_type, location, password)


def _trust_store(settings: Settings) -> TrustStoreOptions:
    location = settings[broker.ZOOKEEPER_SSL_TRUSTSTORE_LOCATION]
    if location is None:
        return TrustStoreOptions()
    store_type = _store_type(settings, broker.ZOOKEEPER_SSL_TRUSTSTORE_TYPE, location)
    if store_type == PEM:
        return TrustStoreOptions(PEM, location)
    return TrustStoreOptions(store_type, location, settings[broker.ZOOKEEPER_SSL_TRUSTSTORE_PASSWORD])


def _store_type(settings: Settings, setting: Setting[str | None], location: str) -> str:
    """Return the type of a store: by its setting, else by the file's suffix."""
    store_type = settings[setting]
    if store_type is not None:
        return store_type.upper()
    return _TYPES_BY_SUFFIX.get(Path(location).suffix.lower(), "no value")
