# ruff: noqa: E501 - names of tests and lines of code are as long as they are
"""Bugs in delegation tokens that break a promise, each with the tests that must notice it."""

from __future__ import annotations

from tests.mutation.plant import Plant

HANDLERS = "src/odradek/broker/handlers"
TOKENS = "src/odradek/broker/security/delegation_tokens.py"
TESTS = "unit/broker/handlers/test_delegation_tokens.py"
STORE_TESTS = "unit/store/test_tokens.py"

TOKEN_PLANTS: list[Plant] = [
    Plant(
        "a connection that is authenticated by a token makes no other token",
        "src/odradek/security/tokens/token_checks.py",
        "        is_token_authenticated\n        or security_protocol",
        "        security_protocol",
        (f"{TESTS}::test_connection_without_an_identity_of_its_own",),
    ),
    Plant(
        "requests about tokens are checked for an identity",
        f"{HANDLERS}/describe_delegation_token.py",
        "    require_identity(context)\n",
        "",
        (f"{TESTS}::test_connection_without_an_identity_of_its_own",),
    ),
    Plant(
        "a token of another owner requires CreateTokens on that user",
        f"{HANDLERS}/create_delegation_token.py",
        "AclResourceType.USER, str(user)",
        "AclResourceType.USER, str(requester)",
        (f"{TESTS}::test_token_of_another_owner_requires_create_tokens",),
    ),
    Plant(
        "the owner of a token is a user",
        f"{HANDLERS}/create_delegation_token.py",
        "    if owner.principal_type != USER_TYPE:\n",
        "    if not owner.principal_type:\n",
        (f"{TESTS}::test_owners_and_renewers_are_users",),
    ),
    Plant(
        "a token that another broker has removed does not come back",
        "src/odradek/store/tokens.py",
        "    await _write(store, SetDataOp(path, encode_token(information), version), information.token_id)\n",
        "    data, is_there = encode_token(information), await store.exists(path)\n    await _write(store, SetDataOp(path, data, version) if is_there else CreateOp(path, data), information.token_id)\n",
        (
            f"{STORE_TESTS}::test_conflicts_change_nothing_and_notify_nobody",
            f"{TESTS}::test_removed_token_does_not_come_back_by_a_late_renewal",
        ),
    ),
    Plant(
        "a change of a token is written only if nobody else has changed it",
        "src/odradek/store/tokens.py",
        "SetDataOp(path, encode_token(information), version)",
        "SetDataOp(path, encode_token(information))",
        (
            f"{STORE_TESTS}::test_conflicts_change_nothing_and_notify_nobody",
            f"{TESTS}::test_token_changed_elsewhere_is_decided_on_again",
        ),
    ),
    Plant(
        "every change of a token is announced",
        "src/odradek/store/tokens.py",
        "    await store.multi([write, CreateOp(prefix, encode_change(token_id), sequence=True)])\n",
        "    await store.multi([write])\n",
        (f"{STORE_TESTS}::test_every_write_notifies", f"{TESTS}::test_other_broker_learns_of_changes"),
    ),
    Plant(
        "tokens that were removed during an expired session do not authenticate",
        TOKENS,
        "                self._put(token_id, None)\n            for token_id, token in tokens.items():\n",
        "                pass\n            for token_id, token in tokens.items():\n",
        (f"{TESTS}::test_everything_is_read_again_after_a_session_expired",),
    ),
    Plant(
        "a token that cannot be decoded authenticates nobody",
        TOKENS,
        '            log.error("delegation_token_not_decoded", reason=str(error))\n            self._put(token_id, None)\n',
        '            log.error("delegation_token_not_decoded", reason=str(error))\n',
        (f"{TESTS}::test_node_that_cannot_be_decoded_authenticates_nobody",),
    ),
    Plant(
        "only the controller removes expired tokens",
        TOKENS,
        "            if is_controller():\n                await",
        "            if True:\n                await",
        (f"{TESTS}::test_only_the_controller_removes_expired_tokens_and_keeps_renewed_ones",),
    ),
]
