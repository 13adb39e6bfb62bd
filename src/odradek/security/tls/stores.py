"""Keys and certificates of the key store and the trust store: PEM files, PEM text in settings, PKCS12 files.

Problems are reported as ``ConfigError`` with the setting's name. No message has contents of a store.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from odradek.model.errors import ConfigError
from odradek.model.secret import Secret
from odradek.security.tls.tls_options import PEM, KeyStoreOptions, TlsOptions

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates
    from cryptography.x509 import Certificate

STORE_BYTES_MAX: Final = 8 * 1024 * 1024
"""Limit of a store: the public authorities of a system take 250 KB."""
_JKS_MAGIC: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_PEM_START: Final = b"-----BEGIN "
_PEM_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_PEM_COLUMNS: Final = 64
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_CERTIFICATE: Final = ("CERTIFICATE", "TRUSTED CERTIFICATE", "X509 CERTIFICATE")
_KEY: Final = "PRIVATE KEY"

ReadFile = Callable[[str], bytes]


class KeyMaterial(NamedTuple):
    """A private key and its certificates, the own one first, as PEM. The password is that of the key."""

    key: Secret
    certificates: tuple[str, ...]
    password: Secret | None
    is_encrypted: bool

    @property
    def certificate(self) -> bytes:
        """The own certificate in DER."""
        return ssl.PEM_cert_to_DER_cert(self.certificates[0])


class TlsMaterial(NamedTuple):
    """Contents of both stores; None where no store is set."""

    key: KeyMaterial | None
    trusted: tuple[str, ...] | None


class _PemBlock(NamedTuple):
    label: str
    text: str


def read_material(options: TlsOptions, read: ReadFile) -> TlsMaterial:
    """Read both stores; raises ``ConfigError`` with one line for each that cannot be read."""
    problems: list[str] = []
    key = trusted = None
    try:
        key = _read_key_store(options, read)
    except ConfigError as error:
        problems += error.problems
    try:
        trusted = _read_trust_store(options, read)
    except ConfigError as error:
        problems += error.problems
    if problems:
        raise ConfigError(problems)
    return TlsMaterial(key, trusted)


def _read_key_store(options: TlsOptions, read: ReadFile) -> KeyMaterial | None:
    store, name = options.key_store, f"{options.prefix}keystore."
    if store.key is not None and store.certificate_chain is not None:
        key_blocks = _pem_blocks(store.key.reveal(), f"{name}key")
        chain_blocks = _pem_blocks(store.certificate_chain.reveal(), f"{name}certificate.chain")
        names = (f"{name}key", f"{name}certificate.chain")
        return _pem_key_material(key_blocks, chain_blocks, store, names, _key_password_name(options))
    if store.location is None:
        return None
    data = _read(store.location, f"{name}location", read)
    where = f"{name}location: {store.location}"
    if store.type == PEM:
        blocks = _pem_blocks(_as_text(data, where), where)
        return _pem_key_material(blocks, blocks, store, (where, where), _key_password_name(options))
    pkcs12 = _load_pkcs12(data, store.location, store.password, name, where)
    if pkcs12.key is None or pkcs12.cert is None:
        raise ConfigError([f"{where} has no private key with a certificate"])
    return _pkcs12_key_material(pkcs12)


def _key_password_name(options: TlsOptions) -> str:
    return options.prefix + options.key_password_name


def _read_trust_store(options: TlsOptions, read: ReadFile) -> tuple[str, ...] | None:
    store, name = options.trust_store, f"{options.prefix}truststore."
    if store.certificates is not None:
        where = f"{name}certificates"
        return _certificates(_pem_blocks(store.certificates.reveal(), where), where)
    if store.location is None:
        return None
    data = _read(store.location, f"{name}location", read)
    where = f"{name}location: {store.location}"
    if store.type == PEM:
        return _certificates(_pem_blocks(_as_text(data, where), where), where)
    pkcs12 = _load_pkcs12(data, store.location, store.password, name, where)
    certificates = [entry.certificate for entry in pkcs12.additional_certs]
    if pkcs12.cert is not None:
        certificates.insert(0, pkcs12.cert.certificate)
    if not certificates:
        raise ConfigError([f"{where} has no certificate"])
    return tuple(_certificate_pem(certificate) for certificate in certificates)


def _read(path: str, name: str, read: ReadFile) -> bytes:
    try:
        data = read(path)
    except OSError as error:
        raise ConfigError([f"{name}: {path} cannot be loaded: {error.strerror or error}"]) from None
    if len(data) > STORE_BYTES_MAX:
        raise ConfigError([f"{name}: {path} must be at most {STORE_BYTES_MAX} bytes, got {len(data)}"])
    return data


# PEM.


def _as_text(data: bytes, where: str) -> str:
    if data.startswith(_JKS_MAGIC):
        raise ConfigError([f"{where} is a JKS file, not PEM"])
    return data.decode("latin-1")


def _pem_blocks(text: str, where: str) -> list[_PemBlock]:
    """Return the blocks of a PEM text; line breaks may be missing or other white space, as in properties."""
    blocks = []
    for label, body in _PEM_BLOCK.findall(text):
        if ":" in body:  # headers of an old encrypted key
            blocks.append(_PemBlock(label, f"-----BEGIN {label}-----{body}-----END {label}-----\n"))
            continue
        encoded = "".join(body.split())
        if _BASE64.fullmatch(encoded) is None:
            raise ConfigError([f"{where}: a PEM block ({label}) is damaged"])
        lines = [encoded[start : start + _PEM_COLUMNS] for start in range(0, len(encoded), _PEM_COLUMNS)]
        blocks.append(
            _PemBlock(label, "\n".join([f"-----BEGIN {label}-----", *lines, f"-----END {label}-----", ""]))
        )
    return blocks


def _certificates(blocks: list[_PemBlock], where: str) -> tuple[str, ...]:
    certificates = tuple(block.text for block in blocks if block.label in _CERTIFICATE)
    if not certificates:
        raise ConfigError([f"{where}: at least one certificate in PEM format is required"])
    return certificates


def _pem_key_material(
    key_blocks: list[_PemBlock],
    chain_blocks: list[_PemBlock],
    store: KeyStoreOptions,
    names: tuple[str, str],
    key_password_name: str,
) -> KeyMaterial:
    keys = [block for block in key_blocks if block.label.endswith(_KEY)]
    if len(keys) != 1:
        raise ConfigError([f"{names[0]}: exactly one private key in PEM format is required, got {len(keys)}"])
    is_encrypted = "ENCRYPTED" in keys[0].label or "ENCRYPTED" in keys[0].text.partition("\n\n")[0]
    if is_encrypted and store.key_password is None:
        raise ConfigError(
            [f"{key_password_name}: required, because the private key of {names[0]} is encrypted"]
        )
    certificates = _certificates(chain_blocks, names[1])
    return KeyMaterial(Secret(keys[0].text), certificates, store.key_password, is_encrypted)


# PKCS12.


def _load_pkcs12(
    data: bytes, path: str, password: Secret | None, name: str, where: str
) -> PKCS12KeyAndCertificates:
    if data.startswith(_JKS_MAGIC):
        raise ConfigError(
            [
                f"{where} is a JKS file, which is not supported. Convert it: keytool -importkeystore "
                f"-srckeystore {path} -destkeystore {path}.p12 -deststoretype PKCS12, and set "
                f"{name}type=PKCS12"
            ]
        )
    if data.lstrip().startswith(_PEM_START):
        raise ConfigError([f"{name}type: must be PEM for the PEM file {path}, got another type"])
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

    try:
        return load_pkcs12(data, None if password is None else password.reveal().encode())
    except Exception:  # noqa: BLE001 - the library raises several kinds, and their messages are no help
        raise ConfigError([f"{where} is no PKCS12 file, or {name}password is wrong"]) from None


def _pkcs12_key_material(pkcs12: PKCS12KeyAndCertificates) -> KeyMaterial:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    assert pkcs12.key is not None
    assert pkcs12.cert is not None
    key = pkcs12.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    chain = _chain(pkcs12.cert.certificate, [entry.certificate for entry in pkcs12.additional_certs])
    return KeyMaterial(Secret(key), tuple(map(_certificate_pem, chain)), None, False)


def _chain(own: Certificate, others: list[Certificate]) -> list[Certificate]:
    """Return the certificate and its issuers, in order: a PKCS12 file has them in any order."""
    chain = [own]
    rest = [certificate for certificate in others if certificate != own]
    while chain[-1].issuer != chain[-1].subject:
        issuer = next((certificate for certificate in rest if certificate.subject == chain[-1].issuer), None)
        if issuer is None:
            break
        rest.remove(issuer)
        chain.append(issuer)
    return chain


def _certificate_pem(certificate: Certificate) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM).decode()
