"""Bugs in TLS that let somebody in, show a secret or use up memory, each with the tests that notice it."""

from __future__ import annotations

from tests.mutation.plant import Plant

TLS = "src/odradek/security/tls"
CONNECTION = "src/odradek/net/tls/tls_connection.py"
BROKER_CONNECTION = "src/odradek/net/broker_connection.py"

TLS_PLANTS: list[Plant] = [
    Plant(
        "half a handshake is closed after the limit",
        CONNECTION,
        '        self._fail(TlsError(f"it was not complete after {timeout_ms} ms"))\n',
        "        pass\n",
        ("unit/net/test_tls_connection.py::test_half_handshake_is_closed_after_the_limit",),
    ),
    Plant(
        "a principal is known before the first request",
        CONNECTION,
        "        self.peer_principal_name = self._stream.peer_name()\n",
        "",
        ("unit/net/test_tls_connection.py::test_principal_is_known_before_the_first_bytes",),
    ),
    Plant(
        "a client does not try refused handshakes again",
        BROKER_CONNECTION,
        "        except TlsHandshakeFailed as error:\n",
        "        except NotImplementedError as error:\n",
        ("unit/net/test_tls_failures.py::test_refused_handshake_is_a_failed_authentication",),
    ),
    Plant(
        "a certificate that is refused after the client's handshake is a failed authentication",
        BROKER_CONNECTION,
        'if isinstance(getattr(self._connection, "failure", None), TlsHandshakeFailed):',
        "if False:",
        ("unit/net/test_tls_failures.py::test_refused_handshake_is_a_failed_authentication",),
    ),
    Plant(
        "a client tries again when a connection ends during the handshake",
        CONNECTION,
        'self.failure = TlsError(_ENDED if reason is None else f"{_ENDED}: {reason}")',
        "self.failure = TlsHandshakeFailed(_ENDED)",
        ("unit/net/test_tls_failures.py::test_connection_that_ends_during_the_handshake_may_be_tried_again",),
    ),
    Plant(
        "a client re-authenticates before its session ends",
        BROKER_CONNECTION,
        "            wait_s = lifetime_ms * self._reauthentication_part / 1000\n",
        "            wait_s = lifetime_ms * 2 / 1000\n",
        (
            "unit/net/test_reauthentication.py::test_sessions_are_renewed_at_85_to_95_percent_of_their_lifetime",
        ),
    ),
    Plant(
        "requests wait until a client has re-authenticated",
        "src/odradek/net/connection_state.py",
        "            and not connection.is_reauthenticating\n",
        "",
        ("unit/net/test_reauthentication.py::test_requests_wait_for_the_renewal",),
    ),
    Plant(
        "a failed re-authentication closes the connection",
        BROKER_CONNECTION,
        "        if isinstance(error, ClientError):\n            self.close(error)\n",
        "        if isinstance(error, ClientError):\n            pass\n",
        ("unit/net/test_reauthentication.py::test_failed_renewal_closes_the_connection",),
    ),
    Plant(
        "ciphertext in memory is bounded",
        CONNECTION,
        "if self._raw.queued_bytes >= QUEUED_BYTES_MAX:",
        "if False:",
        ("unit/net/test_tls_connection.py::test_ciphertext_in_memory_is_bounded",),
    ),
    Plant(
        "encrypting a large response does not stop other connections",
        CONNECTION,
        "if turn_bytes >= TURN_BYTES_MAX:",
        "if False:",
        ("unit/net/test_tls_connection.py::test_large_response_does_not_keep_others_waiting",),
    ),
    Plant(
        "uncached data is read by threads",
        CONNECTION,
        "if self._offload_read is None or chunk.starts_cached(len(chunk)):",
        "if True:",
        ("unit/net/test_tls_connection.py::test_uncached_ranges_are_read_by_threads",),
    ),
    Plant(
        "a truncated stream is no orderly end",
        CONNECTION,
        "            reason = _TRUNCATED\n",
        "            pass\n",
        ("unit/net/test_tls_connection.py::test_truncated_stream_is_no_orderly_end",),
    ),
    Plant(
        "bytes before the end of a handshake are bounded",
        f"{TLS}/tls_stream.py",
        "            if self._handshake_bytes > HANDSHAKE_BYTES_MAX:\n",
        "            if False:\n",
        ("unit/security/tls/test_tls_stream.py::test_slow_handshake_bytes_are_bounded",),
    ),
    Plant(
        "a client without TLS gets no alert that it would take for a size",
        f"{TLS}/tls_stream.py",
        "data[0] not in (_HANDSHAKE_RECORD, _ALERT_RECORD)",
        "False",
        ("unit/security/tls/test_tls_stream.py::test_peers_without_tls_are_told_apart_and_get_no_alert",),
    ),
    Plant(
        "a client verifies the host name",
        f"{TLS}/tls_context.py",
        "context.check_hostname = options.checks_host_name",
        "context.check_hostname = False",
        ("unit/security/tls/test_tls_context.py::test_unacceptable_server_certificates",),
    ),
    Plant(
        "a required client certificate is required",
        f"{TLS}/tls_options.py",
        '    "required": ssl.CERT_REQUIRED,\n',
        '    "required": ssl.CERT_OPTIONAL,\n',
        ("unit/security/tls/test_tls_context.py::test_client_certificates",),
    ),
    Plant(
        "renegotiation is refused",
        f"{TLS}/tls_context.py",
        "ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION",
        "ssl.OP_NO_COMPRESSION",
        ("unit/security/tls/test_tls_context.py::test_context_is_strict",),
    ),
    Plant(
        "suites without encryption cannot be enabled",
        f"{TLS}/cipher_suites.py",
        "    return name if name in TLS_1_2_SUITES or name in TLS_1_3_SUITES else None\n",
        "    return name\n",
        ("unit/security/tls/test_tls_options.py::test_cipher_suites",),
    ),
    Plant(
        "client certificates need a trust store of their own",
        f"{TLS}/tls_options.py",
        'elif options.client_auth != "none" and not options.trust_store.is_set:',
        "elif False:",
        ("unit/security/tls/test_tls_options.py::test_problems_name_the_setting",),
    ),
    Plant(
        "a new certificate keeps the names of the previous one",
        f"{TLS}/certificate_changes.py",
        "if not allow_san and not old.alternatives <= new.alternatives:",
        "if not allow_san and not old.alternatives & new.alternatives:",
        ("unit/security/tls/test_context_source.py::test_names_in_a_certificate_must_not_change",),
    ),
    Plant(
        "brokers accept each other while a certificate is replaced",
        f"{TLS}/context_source.py",
        "            _check_handshake(new.context, old.own_client)\n",
        "",
        (
            "unit/security/tls/test_context_source.py::"
            "test_both_ways_between_brokers_are_checked_while_files_differ",
        ),
    ),
    Plant(
        "a rule applies to complete names only",
        f"{TLS}/principal_mapper.py",
        "if self.pattern.fullmatch(name) is None:",
        "if self.pattern.match(name) is None:",
        ("unit/security/tls/test_principal_mapper.py::test_replacements_have_the_syntax_of_java",),
    ),
    Plant(
        "a comma in a name is escaped",
        f"{TLS}/distinguished_name.py",
        "_ESCAPED: Final = frozenset(',=+<>#;\"\\\\')",
        "_ESCAPED: Final = frozenset('=+<>#;\"\\\\')",
        ("unit/security/tls/test_distinguished_name.py::test_name_is_written_as_by_java",),
    ),
    Plant(
        "a private key is readable by its owner only",
        "src/odradek/cli/tls.py",
        "        os.fchmod(descriptor, 0o600)  # whatever the umask is\n",
        "        os.fchmod(descriptor, 0o640)\n",
        ("unit/cli/test_tls.py::test_files_are_private",),
    ),
]
