"""Security APIs without an authorizer, on PLAINTEXT: Kafka's error codes."""

from typing import Any

import pytest

from odradek.model.errors import ErrorCode
from odradek.wire.messages.create_acls import AclCreation, CreateAclsRequest
from odradek.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from odradek.wire.messages.describe_acls import DescribeAclsRequest
from odradek.wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from odradek.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from odradek.wire.messages.sasl_handshake import SaslHandshakeRequest

SASL_HANDSHAKE, DESCRIBE_ACLS, CREATE_ACLS, DELETE_ACLS, QUOTAS, SCRAM = 17, 29, 30, 31, 48, 50
ANY_MATCH = 2
ANY, TOPIC, ALLOW, READ = 1, 2, 3, 3
NO_AUTHORIZER = "the broker has no authorizer"


@pytest.mark.parametrize("version", range(4))
def test_describe_acls_fails(run_scenario, version):
    async def scenario(harness):
        request = DescribeAclsRequest(ANY, None, 1 if version else 3, None, None, ANY, ANY)
        response = await harness.request(DESCRIBE_ACLS, version, request)
        assert response.error_code == ErrorCode.SECURITY_DISABLED
        assert response.error_message == NO_AUTHORIZER
        assert response.resources == []

    run_scenario(scenario)


@pytest.mark.parametrize("version", range(4))
def test_create_acls_fails_for_each_creation(run_scenario, version):
    async def scenario(harness):
        creation = AclCreation(TOPIC, "orders", 3, "User:alice", "*", READ, ALLOW)
        response = await harness.request(CREATE_ACLS, version, CreateAclsRequest([creation, creation]))
        error = (ErrorCode.SECURITY_DISABLED, f"{NO_AUTHORIZER}.")
        assert [(result.error_code, result.error_message) for result in response.results] == [error] * 2

    run_scenario(scenario)


@pytest.mark.parametrize("version", range(4))
def test_delete_acls_fails_for_each_filter(run_scenario, version):
    async def scenario(harness):
        everything = DeleteAclsFilter(ANY, None, 1 if version else 3, None, None, ANY, ANY)
        response = await harness.request(DELETE_ACLS, version, DeleteAclsRequest([everything, everything]))
        error: tuple[ErrorCode, str, list[Any]] = (ErrorCode.SECURITY_DISABLED, f"{NO_AUTHORIZER}.", [])
        result = [
            (result.error_code, result.error_message, result.matching_acls)
            for result in response.filter_results
        ]
        assert result == [error] * 2

    run_scenario(scenario)


@pytest.mark.parametrize("version", range(2))
def test_sasl_handshake_on_a_plaintext_listener_fails(run_scenario, version):
    async def scenario(harness):
        response = await harness.request(SASL_HANDSHAKE, version, SaslHandshakeRequest("PLAIN"))
        assert (response.error_code, response.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
        await harness.create("orders")  # the connection stays open

    run_scenario(scenario)


@pytest.mark.parametrize("version", range(2))
def test_no_client_quotas_are_described(run_scenario, version):
    async def scenario(harness):
        for components in (
            [],
            [ComponentData("user", ANY_MATCH, None), ComponentData("client-id", 0, "app")],
        ):
            response = await harness.request(QUOTAS, version, DescribeClientQuotasRequest(components, True))
            assert (response.error_code, response.entries) == (0, [])

    run_scenario(scenario)


@pytest.mark.parametrize(
    ("types", "code"),
    [
        (["user", "user"], ErrorCode.INVALID_REQUEST),
        (["ip", "client-id"], ErrorCode.INVALID_REQUEST),
        ([""], ErrorCode.INVALID_REQUEST),
        (["planet"], ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_invalid_quota_filter_is_rejected(run_scenario, types, code):
    async def scenario(harness):
        components = [ComponentData(entity_type, ANY_MATCH, None) for entity_type in types]
        response = await harness.request(QUOTAS, 1, DescribeClientQuotasRequest(components, False))
        assert (response.error_code, response.entries) == (code, None)
        assert response.error_message

    run_scenario(scenario)


def test_no_scram_credentials_are_described(run_scenario):
    async def scenario(harness):
        no_users: tuple[list[UserName] | None, ...] = (None, [])
        for users in no_users:
            response = await harness.request(SCRAM, 0, DescribeUserScramCredentialsRequest(users))
            assert (response.error_code, response.results) == (0, [])
        named = [UserName("alice"), UserName("bob"), UserName("bob")]
        response = await harness.request(SCRAM, 0, DescribeUserScramCredentialsRequest(named))
        assert response.error_code == 0
        result = {result.user: result.error_code for result in response.results}
        assert result == {"alice": ErrorCode.RESOURCE_NOT_FOUND, "bob": ErrorCode.DUPLICATE_RESOURCE}

    run_scenario(scenario)
