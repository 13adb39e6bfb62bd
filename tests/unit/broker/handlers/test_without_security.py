"""Answers about security from a broker that has none: as Kafka's without an authorizer, on PLAINTEXT."""

import pytest

from odradek.model.errors import ErrorCode
from odradek.wire.messages.create_acls import AclCreation, CreateAclsRequest
from odradek.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from odradek.wire.messages.describe_acls import DescribeAclsRequest
from odradek.wire.messages.sasl_handshake import SaslHandshakeRequest

SASL_HANDSHAKE, DESCRIBE_ACLS, CREATE_ACLS, DELETE_ACLS = 17, 29, 30, 31
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
