"""Answers about security from a broker that has none: as Kafka's without an authorizer, on PLAINTEXT."""

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
NO_AUTHORIZER = "No Authorizer is configured on the broker"


@pytest.mark.parametrize("version", range(4))
def test_acls_are_not_described(play, version):
    async def scenario(town):
        request = DescribeAclsRequest(ANY, None, 1 if version else 3, None, None, ANY, ANY)
        answer = await town.ask(DESCRIBE_ACLS, version, request)
        assert answer.error_code == ErrorCode.SECURITY_DISABLED
        assert answer.error_message == NO_AUTHORIZER
        assert answer.resources == []

    play(scenario)


@pytest.mark.parametrize("version", range(4))
def test_acls_are_not_created_and_each_creation_is_told_so(play, version):
    async def scenario(town):
        creation = AclCreation(TOPIC, "orders", 3, "User:alice", "*", READ, ALLOW)
        answer = await town.ask(CREATE_ACLS, version, CreateAclsRequest([creation, creation]))
        refusal = (ErrorCode.SECURITY_DISABLED, f"{NO_AUTHORIZER}.")
        assert [(one.error_code, one.error_message) for one in answer.results] == [refusal] * 2

    play(scenario)


@pytest.mark.parametrize("version", range(4))
def test_acls_are_not_deleted_and_each_filter_is_told_so(play, version):
    async def scenario(town):
        everything = DeleteAclsFilter(ANY, None, 1 if version else 3, None, None, ANY, ANY)
        answer = await town.ask(DELETE_ACLS, version, DeleteAclsRequest([everything, everything]))
        refusal = (ErrorCode.SECURITY_DISABLED, f"{NO_AUTHORIZER}.", [])
        found = [(one.error_code, one.error_message, one.matching_acls) for one in answer.filter_results]
        assert found == [refusal] * 2

    play(scenario)


@pytest.mark.parametrize("version", range(2))
def test_a_sasl_handshake_is_out_of_place_on_a_plaintext_listener(play, version):
    async def scenario(town):
        answer = await town.ask(SASL_HANDSHAKE, version, SaslHandshakeRequest("PLAIN"))
        assert (answer.error_code, answer.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
        await town.create("orders")  # the connection stays

    play(scenario)


@pytest.mark.parametrize("version", range(2))
def test_there_are_no_client_quotas(play, version):
    async def scenario(town):
        for components in (
            [],
            [ComponentData("user", ANY_MATCH, None), ComponentData("client-id", 0, "app")],
        ):
            answer = await town.ask(QUOTAS, version, DescribeClientQuotasRequest(components, True))
            assert (answer.error_code, answer.entries) == (0, [])

    play(scenario)


@pytest.mark.parametrize(
    ("types", "code"),
    [
        (["user", "user"], ErrorCode.INVALID_REQUEST),
        (["ip", "client-id"], ErrorCode.INVALID_REQUEST),
        ([""], ErrorCode.INVALID_REQUEST),
        (["planet"], ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_a_filter_of_quotas_that_makes_no_sense_is_refused(play, types, code):
    async def scenario(town):
        components = [ComponentData(each, ANY_MATCH, None) for each in types]
        answer = await town.ask(QUOTAS, 1, DescribeClientQuotasRequest(components, False))
        assert (answer.error_code, answer.entries) == (code, None)
        assert answer.error_message

    play(scenario)


def test_no_user_has_scram_credentials(play):
    async def scenario(town):
        for users in (None, []):
            answer = await town.ask(SCRAM, 0, DescribeUserScramCredentialsRequest(users))
            assert (answer.error_code, answer.results) == (0, [])
        named = [UserName("alice"), UserName("bob"), UserName("bob")]
        answer = await town.ask(SCRAM, 0, DescribeUserScramCredentialsRequest(named))
        assert answer.error_code == 0
        found = {one.user: one.error_code for one in answer.results}
        assert found == {"alice": ErrorCode.RESOURCE_NOT_FOUND, "bob": ErrorCode.DUPLICATE_RESOURCE}

    play(scenario)
