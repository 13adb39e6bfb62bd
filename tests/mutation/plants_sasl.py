"""Bugs in SASL mechanisms and delegation tokens, each with the tests that must notice it."""

from __future__ import annotations

from tests.mutation.plant import Plant

SASL = "src/odradek/security/sasl"
TOKENS = "src/odradek/security/tokens"

SASL_PLANTS: list[Plant] = [
    Plant(
        "an authorization id is that of the authenticated user (PLAIN)",
        f"{SASL}/plain.py",
        '        if authorization_id not in ("", username):\n',
        "        if False:\n",
        ("unit/security/sasl/test_plain.py::test_another_authorization_id_is_refused",),
    ),
    Plant(
        "a proof is checked against the stored key",
        f"{SASL}/scram_server.py",
        "        if not is_proven:\n",
        "        if False:\n",
        (
            "unit/security/sasl/test_scram.py::test_bad_final_messages_are_refused",
            "unit/security/sasl/test_oracles.py::test_kafka_python_with_a_wrong_password_is_refused",
        ),
    ),
    Plant(
        "the credential of an unknown user authenticates nobody",
        f"{SASL}/scram_server.py",
        "        is_known = credential is not None\n",
        "        is_known = True\n",
        (
            "unit/security/sasl/test_scram.py::test_unknown_users_are_refused_like_wrong_passwords",
            "unit/security/sasl/test_scram.py::test_tokens_and_users_are_apart",
        ),
    ),
    Plant(
        "the nonce of a final message is that of the exchange",
        f"{SASL}/scram_server.py",
        "        if final.nonce != exchange.server.nonce:\n",
        "        if not final.nonce:\n",
        ("unit/security/sasl/test_scram.py::test_a_proof_does_not_excuse_another_nonce_or_binding",),
    ),
    Plant(
        "the channel binding of a final message is that of the first",
        f"{SASL}/scram_server.py",
        "        if final.channel_binding != exchange.first.gs2_header.encode():\n",
        "        if not final.channel_binding:\n",
        ("unit/security/sasl/test_scram.py::test_a_proof_does_not_excuse_another_nonce_or_binding",),
    ),
    Plant(
        "a client refuses a broker that does not know the password",
        f"{SASL}/scram_client.py",
        "        if not is_server_signature(self._mechanism, salted, self._auth_message, final.signature):\n",
        "        if not salted:\n",
        ("unit/security/sasl/test_scram.py::test_client_refuses_a_broker_that_does_not_prove_itself",),
    ),
    Plant(
        "a client refuses too few iterations",
        f"{SASL}/scram_client.py",
        "        if not ITERATIONS_MIN <= server.iterations <= ITERATIONS_LIMIT:\n",
        "        if server.iterations > ITERATIONS_LIMIT:\n",
        ("unit/security/sasl/test_scram.py::test_client_refuses_bad_challenges",),
    ),
    Plant(
        "an access token is signed by a key of its algorithm",
        f"{SASL}/jwt_validator.py",
        "        if not any(is_signed_by(key, algorithm, sections) for key in candidates):\n",
        "        if not candidates:\n",
        (
            "unit/security/sasl/test_jwt.py::test_signature_covers_header_and_claims",
            "unit/security/sasl/test_jwt.py::test_each_algorithm_is_accepted",
        ),
    ),
    Plant(
        "an access token expires",
        f"{SASL}/jwt_validator.py",
        "        if now - skew >= expires_at_ms:\n",
        "        if now - skew >= expires_at_ms + 7 * 86_400_000:\n",
        ("unit/security/sasl/test_jwt.py::test_claims_that_are_refused",),
    ),
    Plant(
        "an access token is for an expected audience",
        f"{SASL}/jwt_validator.py",
        "        if expected and expected.isdisjoint(audiences):\n",
        "        if expected and not audiences:\n",
        ("unit/security/sasl/test_jwt.py::test_other_audiences_are_refused",),
    ),
    Plant(
        "a delegation token is changed by its owner and renewers only",
        f"{TOKENS}/token_manager.py",
        "        if not token.information.may_be_renewed_by(principal):\n",
        "        if not token.information.concerns(principal):\n",
        ("unit/security/tokens/test_token_manager.py::test_others_change_no_token",),
    ),
    Plant(
        "a delegation token authenticates until it expires",
        f"{TOKENS}/token_cache.py",
        "        if token is None or token.information.is_expired(now_ms):\n",
        "        if token is None:\n",
        ("unit/security/tokens/test_token_manager.py::test_tokens_that_ended_do_not_authenticate",),
    ),
]
