"""DescribeUserScramCredentials, version 0: mechanisms and iterations of users, without credentials."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from odradek.broker.quotas.entity_paths import USERS, entity_name, node_name
from odradek.broker.requests.dispatcher import RequestContext
from odradek.broker.scram_credentials import ScramMechanism, iterations_of
from odradek.model.acl_operations import AclOperation
from odradek.model.errors import ErrorCode
from odradek.store.configs import read_configs, read_configs_of
from odradek.wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


async def describe_user_scram_credentials(
    request: DescribeUserScramCredentialsRequest, context: RequestContext
) -> DescribeUserScramCredentialsResponse:
    context.require_on_cluster(AclOperation.DESCRIBE)
    store = context.broker.membership.store
    if not request.users:
        configs = {entity_name(node): config for node, config in (await read_configs(store, USERS)).items()}
        described = [_describe(user, config) for user, config in configs.items() if user is not None]
        results = sorted((result for result in described if result is not None), key=_user)
        return DescribeUserScramCredentialsResponse(results=results)
    counts = Counter(user.name for user in request.users)
    nodes = {user: node_name(user) for user, count in counts.items() if count == 1 and is_user_name(user)}
    stored = await read_configs_of(store, USERS, list(nodes.values()))
    return DescribeUserScramCredentialsResponse(
        results=[
            _error(user, count) or _describe(user, stored.get(nodes[user], {})) or _not_found(user)
            for user, count in counts.items()
        ]
    )


def is_user_name(user: str) -> bool:
    """Return whether a user of this name can have a node."""
    return user not in ("", ".", "..")


def _user(result: DescribeUserScramCredentialsResult) -> str:
    return result.user


def _describe(user: str, config: Mapping[str, str]) -> DescribeUserScramCredentialsResult | None:
    """Return the credentials of a user; None without any."""
    infos = []
    for mechanism in ScramMechanism:
        credential = config.get(mechanism.mechanism_name)
        if credential is None:
            continue
        try:
            infos.append(CredentialInfo(mechanism, iterations_of(credential)))
        except ValueError as error:
            return DescribeUserScramCredentialsResult(user, ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
    return DescribeUserScramCredentialsResult(user, credential_infos=infos) if infos else None


def _error(user: str, count: int) -> DescribeUserScramCredentialsResult | None:
    if not is_user_name(user):
        message = f"user must be a name, got '{user}'"
        return DescribeUserScramCredentialsResult(user, ErrorCode.RESOURCE_NOT_FOUND, message)
    if count > 1:
        message = f"each user must appear once, got {user} {count} times"
        return DescribeUserScramCredentialsResult(user, ErrorCode.DUPLICATE_RESOURCE, message)
    return None


def _not_found(user: str) -> DescribeUserScramCredentialsResult:
    return DescribeUserScramCredentialsResult(
        user, ErrorCode.RESOURCE_NOT_FOUND, f"user {user} has no SCRAM credentials"
    )


def error_response(
    request: DescribeUserScramCredentialsRequest, code: ErrorCode, message: str | None
) -> DescribeUserScramCredentialsResponse:
    return DescribeUserScramCredentialsResponse(error_code=code, error_message=message)
