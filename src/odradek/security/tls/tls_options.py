"""TLS options of a listener or a client, and checks that need no files.

Made from settings by the broker, the clients and the ZooKeeper store; ``prefix`` is that of the settings'
names, for messages.
"""

from __future__ import annotations

import ssl
from typing import Final, NamedTuple

from odradek.model.secret import Secret
from odradek.security.tls.cipher_suites import cipher_suite_problems

PEM: Final = "PEM"
PKCS12: Final = "PKCS12"
JKS: Final = "JKS"
STORE_TYPES: Final = (PEM, PKCS12, JKS)
"""JKS, Kafka's default, stands for a PKCS12 file: that is what keytool writes since Java 9."""

VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
CLIENT_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
HTTPS: Final = "https"


class KeyStoreOptions(NamedTuple):
    """The private key and its certificate chain: a file, or PEM text in ``key`` and ``certificate_chain``."""

    type: str = JKS
    location: str | None = None
    password: Secret | None = None
    key_password: Secret | None = None
    key: Secret | None = None
    certificate_chain: Secret | None = None

    @property
    def is_set(self) -> bool:
        return self.location is not None or self.key is not None


class TrustStoreOptions(NamedTuple):
    """The trusted certificates: a file, or PEM text in ``certificates``."""

    type: str = JKS
    location: str | None = None
    password: Secret | None = None
    certificates: Secret | None = None

    @property
    def is_set(self) -> bool:
        return self.location is not None or self.certificates is not None


class TlsOptions(NamedTuple):
    """``client_auth`` is for servers; ``endpoint_identification``, "https" or empty, for clients.

    The names are those of settings, for messages: two of them follow the prefix.
    """

    key_store: KeyStoreOptions = KeyStoreOptions()
    trust_store: TrustStoreOptions = TrustStoreOptions()
    protocols: tuple[str, ...] = tuple(VERSIONS)
    cipher_suites: tuple[str, ...] = ()
    client_auth: str = "none"
    endpoint_identification: str = HTTPS
    prefix: str = "ssl."
    protocols_name: str = "enabled.protocols"
    key_password_name: str = "key.password"

    @property
    def checks_host_name(self) -> bool:
        return self.endpoint_identification.lower() == HTTPS


def protocols_of(enabled: tuple[str, ...] | None, protocol: str) -> tuple[str, ...]:
    """Return the protocols that are enabled: a list, or else ``ssl.protocol``; TLS stands for all."""
    return enabled or (tuple(VERSIONS) if protocol == "TLS" else (protocol,))


def option_problems(options: TlsOptions, *, server_side: bool) -> list[str]:
    """Return one line for each option that is not supported, or contradicts another one."""
    problems = [
        *_protocol_problems(options),
        *_key_store_problems(
            options.key_store, options.prefix + "keystore.", options.prefix + options.key_password_name
        ),
        *_trust_store_problems(options.trust_store, options.prefix + "truststore."),
    ]
    if not problems:
        problems += [
            f"{options.prefix}cipher.suites: {problem}"
            for problem in cipher_suite_problems(options.cipher_suites, options.protocols)
        ]
    return problems + (_server_problems(options) if server_side else _client_problems(options))


def _protocol_problems(options: TlsOptions) -> list[str]:
    name = options.prefix + options.protocols_name
    unknown = [version for version in options.protocols if version not in VERSIONS]
    if unknown or not options.protocols:
        got = ", ".join(unknown) or "no value"
        return [f"{name}: must be among {', '.join(VERSIONS)}, got {got}"]
    return []


def _server_problems(options: TlsOptions) -> list[str]:
    problems = []
    if not options.key_store.is_set:
        problems.append(
            f"{options.prefix}keystore.location: a TLS listener requires a private key and a certificate. "
            "Set it, or keystore.key and keystore.certificate.chain; `odradek tls make` makes them"
        )
    if options.client_auth not in CLIENT_AUTH:
        problems.append(
            f"{options.prefix}client.auth: must be one of {', '.join(CLIENT_AUTH)}, got {options.client_auth}"
        )
    elif options.client_auth != "none" and not options.trust_store.is_set:
        problems.append(
            f"{options.prefix}truststore.location: required with client.auth={options.client_auth}: without "
            "it, every certificate of a public authority would be accepted"
        )
    return problems


def _client_problems(options: TlsOptions) -> list[str]:
    if options.endpoint_identification.lower() in (HTTPS, ""):
        return []
    return [
        f"{options.prefix}endpoint.identification.algorithm: must be https or empty, "
        f"got {options.endpoint_identification}"
    ]


def _type_problems(store_type: str, name: str) -> list[str]:
    if store_type in STORE_TYPES:
        return []
    return [f"{name}type: must be PEM or PKCS12, got {store_type}"]


def _key_store_problems(store: KeyStoreOptions, name: str, key_password_name: str) -> list[str]:
    if store.key is None and store.certificate_chain is None:
        problems = _type_problems(store.type, name)
        if store.password is not None and store.location is None:
            problems.append(f"{name}password: requires {name}location")
        elif store.password is not None and store.type == PEM:
            problems.append(f"{name}password: must not be set for PEM; use {key_password_name}")
        elif store.location is not None and store.password is None and store.type != PEM:
            problems.append(f"{name}password: required for the {store.type} file {store.location}")
        return problems
    return _text_problems(
        name,
        store.type,
        {"location": store.location, "password": store.password},
        {"key": store.key, "certificate.chain": store.certificate_chain},
    )


def _trust_store_problems(store: TrustStoreOptions, name: str) -> list[str]:
    if store.certificates is None:
        problems = _type_problems(store.type, name)
        if store.password is not None and store.location is None:
            problems.append(f"{name}password: requires {name}location")
        elif store.password is not None and store.type == PEM:
            problems.append(f"{name}password: must not be set for PEM")
        return problems
    return _text_problems(
        name,
        store.type,
        {"location": store.location, "password": store.password},
        {"certificates": store.certificates},
    )


def _text_problems(
    name: str, store_type: str, excluded: dict[str, object], required: dict[str, object]
) -> list[str]:
    """Check a store that is PEM text in settings."""
    text = " and ".join(name + part for part, value in required.items() if value is not None)
    problems = [f"{name}{part}: required with {text}" for part, value in required.items() if value is None]
    problems += [
        f"{name}{part}: must not be set with {text}" for part, value in excluded.items() if value is not None
    ]
    if store_type != PEM:
        problems.append(f"{name}type: must be PEM with {text}, got {store_type}")
    return problems
