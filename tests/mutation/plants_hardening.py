"""Bugs that let strangers use up a broker or show a secret, each with the tests that must notice it."""

from __future__ import annotations

from tests.mutation.plant import Plant

AUTHENTICATOR = "src/odradek/broker/security/sasl_authenticator.py"
LISTENER_SECURITY = "src/odradek/broker/security/listener_security.py"

HARDENING_PLANTS: list[Plant] = [
    Plant(
        "clients that use up all connections do not cut off brokers",
        "src/odradek/broker/network/listener.py",
        "        if self.total >= self.total_max and not is_protected:\n",
        "        if self.total >= self.total_max:\n",
        (
            "unit/broker/network/test_listener.py::"
            "test_clients_that_use_up_all_connections_do_not_cut_off_brokers",
        ),
    ),
    Plant(
        "frames before authentication are small",
        LISTENER_SECURITY,
        "return values[settings.SASL_SERVER_MAX_RECEIVE_SIZE]",
        "return values[settings.SOCKET_REQUEST_MAX_BYTES]",
        ("security/test_limits.py::test_large_frame_before_authentication_is_refused_by_its_size",),
    ),
    Plant(
        "authentication has a time limit",
        LISTENER_SECURITY,
        "        timer = loop.call_later(timeout_ms / 1000, session.abort)\n",
        "        timer = loop.call_later(3600 + timeout_ms, session.abort)\n",
        ("security/test_limits.py::test_client_that_does_not_go_on_is_closed",),
    ),
    Plant(
        "an authenticated client outlives the time limit",
        LISTENER_SECURITY,
        "        authenticator.on_authenticated = timer.cancel\n",
        "",
        ("security/test_limits.py::test_authenticated_clients_stay_connected",),
    ),
    Plant(
        "a connection over the rate of its address costs no handshake",
        "src/odradek/net/tls/tls_connection.py",
        "        self._is_refused = True\n",
        "        pass\n",
        ("unit/net/test_tls_connection.py::test_refused_connection_costs_no_handshake",),
    ),
    Plant(
        "a token without a header follows version 0 of SaslHandshake only",
        AUTHENTICATOR,
        "    return request.api_key == TOKEN_KEY and request.body_position == 0\n",
        "    return request.api_key == TOKEN_KEY\n",
        ("unit/broker/network/test_sasl_authenticator.py::test_any_other_request_closes_the_connection",),
    ),
    Plant(
        "a misplaced token is not logged",
        AUTHENTICATOR,
        'return mechanism if _MECHANISM.fullmatch(mechanism) else f"of {len(mechanism)} characters"',
        "return repr(mechanism)",
        ("unit/broker/network/test_sasl_authenticator.py::test_text_that_is_no_mechanism_is_not_logged",),
    ),
    Plant(
        "only the owner can read the embedded store",
        "src/odradek/store/embedded/database.py",
        "            if is_own and status.st_mode & OTHERS:\n",
        "            if False:\n",
        ("unit/store/embedded/test_database.py::test_rights_of_others_are_taken_away_from_an_older_file",),
    ),
    Plant(
        "passwords are not stored in the state of the cluster",
        "src/odradek/config/dynamic/broker_config.py",
        "    if setting is not None and setting.sensitive:\n",
        "    if False:\n",
        ("unit/config/dynamic/test_alter_configs.py::test_invalid_broker_overrides_are_rejected",),
    ),
    Plant(
        "a command shows no password that it sets",
        "src/odradek/cli/configs.py",
        "is_hidden = setting is None or setting.sensitive\n",
        "is_hidden = False\n",
        ("unit/cli/test_commands.py::test_values_of_passwords_are_not_shown",),
    ),
]
