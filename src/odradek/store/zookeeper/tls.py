"""TLS to ZooKeeper by Kafka's ``zookeeper.ssl.*`` settings, with PEM files.

The key store is one PEM file with the private key and the certificate chain, the trust store one with the
trusted certificates. ``zookeeper.ssl.protocol`` limits the versions, unless
``zookeeper.ssl.enabled.protocols`` lists them.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from functools import partial
from typing import Final

from odradek.config import broker
from odradek.config.definition import Setting, Settings
from odradek.model.errors import ConfigError

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_PEM_SUFFIXES: Final = (".pem", ".crt", ".cert", ".key")
_NO_HOST_NAME_CHECK: Final = ("", "none")


def tls_problems(settings: Settings) -> list[str]:
    """Return one line for each TLS setting whose value is not supported."""
    problems: list[str] = []
    for location, kind in (
        (broker.ZOOKEEPER_SSL_KEYSTORE_LOCATION, broker.ZOOKEEPER_SSL_KEYSTORE_TYPE),
        (broker.ZOOKEEPER_SSL_TRUSTSTORE_LOCATION, broker.ZOOKEEPER_SSL_TRUSTSTORE_TYPE),
    ):
        problems += _format_problems(settings, location, kind)
    unknown = [version for version in _version_names(settings) if version not in _VERSIONS]
    if unknown:
        setting = _versions_setting(settings)
        problems.append(f"{setting.name}: must be among {', '.join(_VERSIONS)}, got {', '.join(unknown)}")
    algorithm = settings[broker.ZOOKEEPER_SSL_ENDPOINT_IDENTIFICATION_ALGORITHM]
    if algorithm.lower() not in ("https", *_NO_HOST_NAME_CHECK):
        problems.append(
            f"{broker.ZOOKEEPER_SSL_ENDPOINT_IDENTIFICATION_ALGORITHM.name}: must be HTTPS or empty, "
            f"got {algorithm}"
        )
    return problems


def create_tls_context(settings: Settings) -> ssl.SSLContext:
    """Create the TLS context of the settings; raises ``ConfigError`` for all that is not supported."""
    problems = tls_problems(settings)
    if problems:
        raise ConfigError(problems)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    algorithm = settings[broker.ZOOKEEPER_SSL_ENDPOINT_IDENTIFICATION_ALGORITHM]
    context.check_hostname = algorithm.lower() not in _NO_HOST_NAME_CHECK
    versions = sorted(_VERSIONS[name] for name in _version_names(settings))
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    _load(settings, broker.ZOOKEEPER_SSL_TRUSTSTORE_LOCATION, context.load_verify_locations)
    if settings[broker.ZOOKEEPER_SSL_TRUSTSTORE_LOCATION] is None:
        context.load_default_certs()
    password = settings[broker.ZOOKEEPER_SSL_KEYSTORE_PASSWORD]
    # Without a callback, OpenSSL would ask for a missing password on the terminal.
    secret = "" if password is None else password.reveal()
    load_key = partial(context.load_cert_chain, password=lambda: secret)
    _load(settings, broker.ZOOKEEPER_SSL_KEYSTORE_LOCATION, load_key)
    return context


def _load(settings: Settings, location: Setting[str | None], load: Callable[[str], None]) -> None:
    path = settings[location]
    if path is None:
        return
    try:
        load(path)
    except OSError as error:  # ssl.SSLError is one
        raise ConfigError([f"{location.name}: {path} cannot be loaded: {error}"]) from error


def _format_problems(
    settings: Settings, location: Setting[str | None], kind: Setting[str | None]
) -> list[str]:
    path, name = settings[location], settings[kind]
    if path is None or (name is None and path.endswith(_PEM_SUFFIXES)):
        return []
    if name is not None and name.upper() == "PEM":
        return []
    got = "no value" if name is None else name
    return [f"{kind.name}: must be PEM, got {got} for {path}. Convert the file with keytool and openssl"]


def _versions_setting(settings: Settings) -> Setting[str] | Setting[tuple[str, ...] | None]:
    if settings[broker.ZOOKEEPER_SSL_ENABLED_PROTOCOLS]:
        return broker.ZOOKEEPER_SSL_ENABLED_PROTOCOLS
    return broker.ZOOKEEPER_SSL_PROTOCOL


def _version_names(settings: Settings) -> tuple[str, ...]:
    listed = settings[broker.ZOOKEEPER_SSL_ENABLED_PROTOCOLS]
    return listed or (settings[broker.ZOOKEEPER_SSL_PROTOCOL],)
