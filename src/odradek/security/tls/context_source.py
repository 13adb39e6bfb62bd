"""The current TLS context of a listener or a client, replaced when its files or options change.

Connections use the context of the time they are accepted or dialled.
"""

from __future__ import annotations

import hashlib
import ssl
from typing import NamedTuple

from odradek.model.errors import ConfigError
from odradek.security.tls.certificate_changes import certificate_change_problems
from odradek.security.tls.distinguished_name import CertificateNames, certificate_names
from odradek.security.tls.stores import ReadFile, TlsMaterial, read_material
from odradek.security.tls.tls_context import build_context
from odradek.security.tls.tls_error import TlsError
from odradek.security.tls.tls_options import TlsOptions, option_problems
from odradek.security.tls.tls_stream import TlsStream

_HANDSHAKE_STEPS_MAX = 16


class ReloadResult(NamedTuple):
    """Result of a reload: a new context in use, or problems, which are reported once for the same files."""

    is_replaced: bool
    problems: tuple[str, ...] = ()


class ChangeRules(NamedTuple):
    """Changes of the names in a certificate that a reload may make; clients have no such rules."""

    allow_dn: bool = False
    allow_san: bool = False


class _Loaded(NamedTuple):
    options: TlsOptions
    context: ssl.SSLContext
    own_client: ssl.SSLContext | None
    names: CertificateNames | None


class TlsContextSource:
    """Holds a context, and loads it again on request. Raises ``ConfigError`` if it cannot be created."""

    def __init__(
        self,
        options: TlsOptions,
        read: ReadFile,
        *,
        server_side: bool,
        rules: ChangeRules | None = None,
        connects_to_itself: bool = False,
    ) -> None:
        """``connects_to_itself`` is for the listener between brokers, whose certificate the broker's own
        trust store must accept. ``rules`` are checked when a certificate is replaced."""
        self._read = read
        self._server_side = server_side
        self._rules = rules
        self._connects_to_itself = connects_to_itself
        self._last_files = self._fingerprint(options)
        self._loaded = self._load(options)
        if self._loaded.own_client is not None:
            _check_handshake(self._loaded.context, self._loaded.own_client)

    @property
    def context(self) -> ssl.SSLContext:
        """The context for new connections."""
        return self._loaded.context

    @property
    def certificate_names(self) -> CertificateNames | None:
        """The names in the own certificate, or None without one."""
        return self._loaded.names

    def reload(self) -> ReloadResult:
        """Read the files again if they have changed. After a failure, the previous context stays in use."""
        options = self._loaded.options
        files = self._fingerprint(options)
        if files == self._last_files:
            return ReloadResult(False)
        self._last_files = files
        try:
            self._replace(options)
        except ConfigError as error:
            return ReloadResult(False, error.problems)
        return ReloadResult(True)

    def check(self, options: TlsOptions) -> list[str]:
        """Return the problems that ``replace`` would raise."""
        try:
            self._next(options)
        except ConfigError as error:
            return list(error.problems)
        return []

    def replace(self, options: TlsOptions) -> None:
        """Change the options. Raises ``ConfigError``, and keeps the previous context then."""
        files = self._fingerprint(options)
        self._replace(options)
        self._last_files = files

    def _replace(self, options: TlsOptions) -> None:
        self._loaded = self._next(options)

    def _next(self, options: TlsOptions) -> _Loaded:
        old, new = self._loaded, self._load(options)
        problems = []
        if self._rules is not None:
            problems += certificate_change_problems(
                old.names, new.names, allow_dn=self._rules.allow_dn, allow_san=self._rules.allow_san
            )
        if self._server_side and options.trust_store.is_set and not old.options.trust_store.is_set:
            problems.append("a trust store cannot be added to a listener while the broker runs")
        if problems:
            raise ConfigError(problems)
        if new.own_client is not None and old.own_client is not None:
            # Other brokers still have the previous files, and must be able to connect meanwhile.
            _check_handshake(new.context, old.own_client)
            _check_handshake(old.context, new.own_client)
        return new

    def _load(self, options: TlsOptions) -> _Loaded:
        problems = option_problems(options, server_side=self._server_side)
        if problems:
            raise ConfigError(problems)
        material = read_material(options, self._read)
        context = build_context(options, material, server_side=self._server_side)
        own_client = None
        if self._connects_to_itself:
            own_client = build_context(
                options._replace(endpoint_identification=""), material, server_side=False
            )
        return _Loaded(options, context, own_client, _names(options, material))

    def _fingerprint(self, options: TlsOptions) -> tuple[str, ...]:
        """Return digests of the files: their times are no proof, since several writes may share one."""
        locations = (options.key_store.location, options.trust_store.location)
        return tuple(self._digest(location) for location in locations if location is not None)

    def _digest(self, path: str) -> str:
        try:
            return hashlib.sha256(self._read(path)).hexdigest()
        except OSError as error:
            return str(error)


def _names(options: TlsOptions, material: TlsMaterial) -> CertificateNames | None:
    if material.key is None:
        return None
    try:
        return certificate_names(material.key.certificate)
    except ValueError as error:
        raise ConfigError([f"{options.prefix}keystore: the certificate is malformed: {error}"]) from None


def _check_handshake(server: ssl.SSLContext, client: ssl.SSLContext) -> None:
    problem = handshake_problem(server, client)
    if problem is not None:
        raise ConfigError(
            [
                "brokers could not connect to each other: the certificate of the listener between brokers "
                f"must be accepted by its own trust store: {problem}"
            ]
        )


def handshake_problem(server: ssl.SSLContext, client: ssl.SSLContext) -> str | None:
    """Connect two contexts in memory, and return the reason of a failure. The client must check no host."""
    try:
        accepted = TlsStream(server, server_side=True)
        dialled = TlsStream(client, server_side=False)
        for _ in range(_HANDSHAKE_STEPS_MAX):
            if accepted.is_complete and dialled.is_complete:
                return None
            for sender, receiver in ((dialled, accepted), (accepted, dialled)):
                output = sender.take_output()
                if output:
                    receiver.receive(output)
    except TlsError as error:
        return str(error)
    return "the handshake does not end"
