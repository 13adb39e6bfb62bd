"""TLS contexts of listeners and clients, from options and the contents of their stores."""

from __future__ import annotations

import ssl
from typing import Final

from odradek.model.errors import ConfigError
from odradek.security.tls.cipher_suites import TLS_1_3, enabled_protocols, tls_1_2_names
from odradek.security.tls.private_file import private_file
from odradek.security.tls.stores import KeyMaterial, ReadFile, TlsMaterial, read_material
from odradek.security.tls.tls_options import CLIENT_AUTH, VERSIONS, TlsOptions, option_problems

_OPTIONS: Final = ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION


def create_context(options: TlsOptions, read: ReadFile, *, server_side: bool) -> ssl.SSLContext:
    """Create the context of a listener or a client; raises ``ConfigError`` for all that is not supported."""
    problems = option_problems(options, server_side=server_side)
    if problems:
        raise ConfigError(problems)
    return build_context(options, read_material(options, read), server_side=server_side)


def build_context(options: TlsOptions, material: TlsMaterial, *, server_side: bool) -> ssl.SSLContext:
    """Create a context from options without problems and what was read from the stores."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server_side else ssl.PROTOCOL_TLS_CLIENT)
    context.options |= _OPTIONS
    # As in Java, any certificate of the trust store is trusted by itself, not only self-signed ones.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if server_side:
        context.verify_mode = CLIENT_AUTH[options.client_auth]
        # No tickets of TLS 1.3: a client that has not read them resets the connection when it closes it, and
        # a resumed connection would not check certificates again.
        context.num_tickets = 0
    else:
        context.check_hostname = options.checks_host_name
    _set_protocols(context, options)
    _load_trusted(context, options, material.trusted, server_side)
    if material.key is not None:
        _load_key(context, options, material.key)
    return context


def _set_protocols(context: ssl.SSLContext, options: TlsOptions) -> None:
    protocols = enabled_protocols(options.cipher_suites, options.protocols)
    versions = sorted(VERSIONS[protocol] for protocol in protocols)
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    suites = tls_1_2_names(options.cipher_suites)
    if not suites or protocols == [TLS_1_3]:
        return
    try:
        context.set_ciphers(":".join(suites))
    except ssl.SSLError:
        raise ConfigError(
            [f"{options.prefix}cipher.suites: {ssl.OPENSSL_VERSION} supports none of {', '.join(suites)}"]
        ) from None
    enabled = {cipher["name"] for cipher in context.get_ciphers()}
    missing = [suite for suite in suites if suite not in enabled]
    if missing:
        raise ConfigError(
            [f"{options.prefix}cipher.suites: {ssl.OPENSSL_VERSION} does not support {', '.join(missing)}"]
        )


def _load_trusted(
    context: ssl.SSLContext, options: TlsOptions, trusted: tuple[str, ...] | None, server_side: bool
) -> None:
    if trusted is None:
        if not server_side:
            context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        return
    try:
        context.load_verify_locations(cadata="".join(trusted))
    except (ssl.SSLError, ValueError):
        raise ConfigError(
            [f"{_trust_store_name(options)} cannot be loaded: a certificate is damaged"]
        ) from None


def _load_key(context: ssl.SSLContext, options: TlsOptions, material: KeyMaterial) -> None:
    content = "".join([material.key.reveal(), *material.certificates]).encode("latin-1")
    # Without a callback, OpenSSL would ask for a missing password on the terminal.
    password = "" if material.password is None else material.password.reveal()
    try:
        with private_file(content) as path:
            context.load_cert_chain(path, password=lambda: password)
    except ssl.SSLError as error:
        raise ConfigError([_key_problem(options, material, error)]) from None
    except (OSError, ValueError) as error:
        raise ConfigError([f"{_key_store_name(options)} cannot be loaded: {error}"]) from None


def _key_problem(options: TlsOptions, material: KeyMaterial, error: ssl.SSLError) -> str:
    name = _key_store_name(options)
    if error.reason == "KEY_VALUES_MISMATCH":
        return f"{name} cannot be loaded: the private key does not belong to the certificate"
    if material.is_encrypted:
        password = options.prefix + options.key_password_name
        return f"{name} cannot be loaded: {password} is wrong, or the private key is damaged"
    reason = (error.reason or "invalid").lower().replace("_", " ")
    return f"{name} cannot be loaded: the private key or a certificate is damaged or too weak ({reason})"


def _key_store_name(options: TlsOptions) -> str:
    store = options.key_store
    if store.location is None:
        return f"{options.prefix}keystore.key"
    return f"{options.prefix}keystore.location: {store.location}"


def _trust_store_name(options: TlsOptions) -> str:
    store = options.trust_store
    if store.location is None:
        return f"{options.prefix}truststore.certificates"
    return f"{options.prefix}truststore.location: {store.location}"
