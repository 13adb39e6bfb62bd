"""TLS options of a client, from its ``ssl.*`` options."""

from __future__ import annotations

from odradek.config.client import security
from odradek.config.definition import Settings
from odradek.security.tls.tls_options import KeyStoreOptions, TlsOptions, TrustStoreOptions, protocols_of


def tls_options(settings: Settings) -> TlsOptions:
    """Return the TLS options of a client's connections to brokers."""
    enabled = settings[security.SSL_ENABLED_PROTOCOLS]
    return TlsOptions(
        KeyStoreOptions(
            settings[security.SSL_KEYSTORE_TYPE],
            settings[security.SSL_KEYSTORE_LOCATION],
            settings[security.SSL_KEYSTORE_PASSWORD],
            settings[security.SSL_KEY_PASSWORD],
            settings[security.SSL_KEYSTORE_KEY],
            settings[security.SSL_KEYSTORE_CERTIFICATE_CHAIN],
        ),
        TrustStoreOptions(
            settings[security.SSL_TRUSTSTORE_TYPE],
            settings[security.SSL_TRUSTSTORE_LOCATION],
            settings[security.SSL_TRUSTSTORE_PASSWORD],
            settings[security.SSL_TRUSTSTORE_CERTIFICATES],
        ),
        protocols_of(enabled, settings[security.SSL_PROTOCOL]),
        settings[security.SSL_CIPHER_SUITES] or (),
        endpoint_identification=settings[security.SSL_ENDPOINT_IDENTIFICATION_ALGORITHM],
        protocols_name="enabled.protocols" if enabled else "protocol",
    )
