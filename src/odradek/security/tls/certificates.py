"""Certificates for tests and first use: an authority, and certificates for brokers and clients.

Keys are on the P-256 curve: signing with them takes a twentieth of the time of RSA.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from odradek.model.secret import Secret

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey

DAY_MS: Final = 24 * 3600 * 1000
_SKEW_MS: Final = 3600 * 1000
"""Certificates are valid from an hour ago, for clocks that are slow."""


class Validity(NamedTuple):
    """First and last instant of a certificate, in milliseconds since the epoch."""

    from_ms: int
    until_ms: int

    @classmethod
    def of_days(cls, now_ms: int, days: int) -> Validity:
        return cls(now_ms - _SKEW_MS, now_ms + days * DAY_MS)


class IssuedCertificate(NamedTuple):
    """A private key, its certificate, and the certificates of its issuers."""

    key: PrivateKey
    certificate: x509.Certificate
    chain: tuple[x509.Certificate, ...] = ()

    @property
    def certificate_pem(self) -> str:
        """The certificate and those of its issuers but the root, which the peer has."""
        certificates = [self.certificate, *(entry for entry in self.chain if entry.issuer != entry.subject)]
        return "".join(entry.public_bytes(Encoding.PEM).decode() for entry in certificates)

    def key_pem(self, password: Secret | None = None) -> str:
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, _encryption(password)).decode()

    def key_store_pem(self, password: Secret | None = None) -> str:
        """Key and certificates in one text, as ``ssl.keystore.location`` takes it with the type PEM."""
        return self.key_pem(password) + self.certificate_pem

    def key_store_pkcs12(self, name: str, password: Secret) -> bytes:
        """Key and certificates, as ``ssl.keystore.location`` takes it with the type PKCS12."""
        return pkcs12.serialize_key_and_certificates(
            name.encode(), self.key, self.certificate, self.chain or None, _encryption(password)
        )


def trust_store_pkcs12(authority: IssuedCertificate, password: Secret) -> bytes:
    """Return a trust store with the authority's certificate, which Java reads too."""
    entry = pkcs12.PKCS12Certificate(authority.certificate, b"ca")
    return pkcs12.serialize_java_truststore([entry], _encryption(password))


def make_authority(
    common_name: str, validity: Validity, issuer: IssuedCertificate | None = None
) -> IssuedCertificate:
    """Make an authority, signed by itself or by another one."""
    return _issue(
        issuer,
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)]),
        validity,
        [
            (x509.BasicConstraints(ca=True, path_length=None), True),
            (_key_usage(signs_certificates=True), True),
        ],
    )


def make_server_certificate(
    authority: IssuedCertificate,
    hosts: Sequence[str],
    validity: Validity,
    subject: x509.Name | None = None,
    *,
    uses_rsa: bool = False,
) -> IssuedCertificate:
    """Make the certificate of a broker, which also connects to other brokers with it. Hosts are names or
    addresses; the first one is the common name unless there is a subject."""
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
    name = subject or x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0])])
    extensions: list[tuple[x509.ExtensionType, bool]] = [
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (_key_usage(signs_certificates=False), True),
        (usage, False),
    ]
    if hosts:
        extensions.append((x509.SubjectAlternativeName([_general_name(host) for host in hosts]), False))
    return _issue(authority, name, validity, extensions, uses_rsa=uses_rsa)


def make_client_certificate(
    authority: IssuedCertificate, subject: str | x509.Name, validity: Validity
) -> IssuedCertificate:
    """Make the certificate of a client; a text is its common name."""
    name = subject
    if isinstance(name, str):
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
    return _issue(
        authority,
        name,
        validity,
        [
            (x509.BasicConstraints(ca=False, path_length=None), True),
            (_key_usage(signs_certificates=False), True),
            (usage, False),
        ],
    )


def _issue(
    issuer: IssuedCertificate | None,
    subject: x509.Name,
    validity: Validity,
    extensions: Sequence[tuple[x509.ExtensionType, bool]],
    *,
    uses_rsa: bool = False,
) -> IssuedCertificate:
    key: PrivateKey
    key = rsa.generate_private_key(65537, 2048) if uses_rsa else ec.generate_private_key(ec.SECP256R1())
    issuer_key = key if issuer is None else issuer.key
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_instant(validity.from_ms))
        .not_valid_after(_instant(validity.until_ms))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False
        )
    )
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical=critical)
    certificate = builder.sign(issuer_key, hashes.SHA256())
    chain = () if issuer is None else (issuer.certificate, *issuer.chain)
    return IssuedCertificate(key, certificate, chain)


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=not signs_certificates,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _instant(instant_ms: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(instant_ms // 1000, datetime.UTC)


def _encryption(password: Secret | None) -> KeySerializationEncryption:
    return NoEncryption() if password is None else BestAvailableEncryption(password.reveal().encode())
