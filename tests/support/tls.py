"""TLS for tests: an authority, certificates of brokers and clients, and networks that use them."""

from __future__ import annotations

import time
from functools import cache
from typing import Any, Final

from cryptography import x509

from odradek.model.secret import Secret
from odradek.net.tls.tls_network import TlsNetwork
from odradek.ports.network import Network
from odradek.security.tls.certificates import (
    IssuedCertificate,
    Validity,
    make_authority,
    make_client_certificate,
    make_server_certificate,
)
from odradek.security.tls.context_source import TlsContextSource
from odradek.security.tls.tls_options import PEM, KeyStoreOptions, TlsOptions, TrustStoreOptions

HOSTS: Final = ("localhost", "127.0.0.1", "::1")
VALIDITY: Final = Validity.of_days(int(time.time() * 1000), 30)
EXPIRED: Final = Validity(VALIDITY.from_ms - 10_000_000, VALIDITY.from_ms - 5_000_000)


@cache
def authority() -> IssuedCertificate:
    return make_authority("Test authority", VALIDITY)


@cache
def foreign_authority() -> IssuedCertificate:
    return make_authority("Foreign authority", VALIDITY)


@cache
def server_certificate() -> IssuedCertificate:
    return make_server_certificate(authority(), HOSTS, VALIDITY)


@cache
def client_certificate() -> IssuedCertificate:
    return make_client_certificate(authority(), "alice", VALIDITY)


def name(*attributes: tuple[x509.ObjectIdentifier, str]) -> x509.Name:
    return x509.Name([x509.NameAttribute(oid, value) for oid, value in attributes])


def key_store(certificate: IssuedCertificate, password: Secret | None = None) -> KeyStoreOptions:
    """Return a key store as PEM text in settings."""
    return KeyStoreOptions(
        PEM,
        key=Secret(certificate.key_pem(password)),
        certificate_chain=Secret(certificate.certificate_pem),
        key_password=password,
    )


def trust_store(certificate: IssuedCertificate | None = None) -> TrustStoreOptions:
    return TrustStoreOptions(PEM, certificates=Secret((certificate or authority()).certificate_pem))


def read_nothing(path: str) -> bytes:
    raise FileNotFoundError(2, "No such file or directory", path)


def server_options(certificate: IssuedCertificate | None = None, **changes: Any) -> TlsOptions:
    options = TlsOptions(key_store(certificate or server_certificate()), trust_store())
    return options._replace(**changes)


def client_options(certificate: IssuedCertificate | None = None, **changes: Any) -> TlsOptions:
    options = TlsOptions(trust_store=trust_store())
    if certificate is not None:
        options = options._replace(key_store=key_store(certificate))
    return options._replace(**changes)


def source(options: TlsOptions, *, server_side: bool) -> TlsContextSource:
    return TlsContextSource(options, read_nothing, server_side=server_side)


def tls_network(
    network: Network, server: TlsOptions | None = None, client: TlsOptions | None = None, **options: Any
) -> TlsNetwork:
    """Return a network with the certificates above on both sides."""
    return TlsNetwork(
        network,
        server=source(server or server_options(), server_side=True),
        client=source(client or client_options(), server_side=False),
        **options,
    )
