"""AlterUserScramCredentials, version 0: upsert and delete SCRAM credentials; only on the controller.

Each user succeeds or fails as a whole. Credentials are configs of the user, next to its quotas.
"""

from __future__ import annotations

from collections import Counter

from odradek.broker.handlers.describe_user_scram_credentials import is_user_name
from odradek.broker.quotas.entity_paths import USERS, node_name
from odradek.broker.requests.dispatcher import RequestContext
from odradek.broker.scram_credentials import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    ScramMechanism,
    find_mechanism,
    make_credential,
)
from odradek.model.acl_operations import AclOperation
from odradek.model.errors import BrokerError, ErrorCode
from odradek.store.configs import update_config
from odradek.store.port import TooLarge
from odradek.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)


async def alter_user_scram_credentials(
    request: AlterUserScramCredentialsRequest, context: RequestContext
) -> AlterUserScramCredentialsResponse:
    context.broker.membership.require_controller()
    context.require_on_cluster(AclOperation.ALTER)
    results = []
    for user in _users(request):
        code, message = await _outcome(user, request, context)
        results.append(AlterUserScramCredentialsResult(user, code, message))
    return AlterUserScramCredentialsResponse(results=results)


def _users(request: AlterUserScramCredentialsRequest) -> list[str]:
    names = [deletion.name for deletion in request.deletions]
    names += [upsertion.name for upsertion in request.upsertions]
    return list(dict.fromkeys(names))


async def _outcome(
    user: str, request: AlterUserScramCredentialsRequest, context: RequestContext
) -> tuple[ErrorCode, str | None]:
    try:
        changes = UserChanges(
            user,
            [deletion for deletion in request.deletions if deletion.name == user],
            [upsertion for upsertion in request.upsertions if upsertion.name == user],
        )
        await update_config(context.broker.membership.store, USERS, node_name(user), changes.apply)
    except BrokerError as error:
        return error.code, error.message
    except TooLarge as error:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, str(error)
    return ErrorCode.NONE, None


class UserChanges:
    """The changes of one user. Raises a BrokerError if one of them is invalid."""

    def __init__(
        self,
        user: str,
        deletions: list[ScramCredentialDeletion],
        upsertions: list[ScramCredentialUpsertion],
    ) -> None:
        if not is_user_name(user):
            raise BrokerError(ErrorCode.UNACCEPTABLE_CREDENTIAL, f"user must be a name, got '{user}'")
        self._deleted = [_mechanism(deletion.mechanism) for deletion in deletions]
        self._upserted: dict[str, str] = {}
        mechanisms = Counter(self._deleted)
        for upsertion in upsertions:
            mechanism = _mechanism(upsertion.mechanism)
            _check_iterations(upsertion.iterations)
            mechanisms[mechanism] += 1
            self._upserted[mechanism.mechanism_name] = make_credential(
                mechanism, upsertion.salt, upsertion.salted_password, upsertion.iterations
            )
        if any(count > 1 for count in mechanisms.values()):
            raise BrokerError(ErrorCode.DUPLICATE_RESOURCE, f"each mechanism of user {user} must appear once")

    def apply(self, config: dict[str, str]) -> dict[str, str]:
        """Return the configs of the user after the changes."""
        changed = dict(config)
        for mechanism in self._deleted:
            if changed.pop(mechanism.mechanism_name, None) is None:
                raise BrokerError(
                    ErrorCode.RESOURCE_NOT_FOUND, f"the user has no credential for {mechanism.mechanism_name}"
                )
        changed.update(self._upserted)
        return changed


def _mechanism(number: int) -> ScramMechanism:
    mechanism = find_mechanism(number)
    if mechanism is None:
        raise BrokerError(
            ErrorCode.UNSUPPORTED_SASL_MECHANISM,
            f"mechanism must be 1 (SCRAM-SHA-256) or 2 (SCRAM-SHA-512), got {number}",
        )
    return mechanism


def _check_iterations(iterations: int) -> None:
    if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        raise BrokerError(
            ErrorCode.UNACCEPTABLE_CREDENTIAL,
            f"iterations must be between {ITERATIONS_MIN} and {ITERATIONS_MAX}, got {iterations}",
        )


def error_response(
    request: AlterUserScramCredentialsRequest, code: ErrorCode, message: str | None
) -> AlterUserScramCredentialsResponse:
    return AlterUserScramCredentialsResponse(
        results=[AlterUserScramCredentialsResult(user, code, message) for user in _users(request)]
    )
