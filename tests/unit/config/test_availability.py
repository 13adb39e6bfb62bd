"""Settings that promise protection this broker cannot give: they stop the start, and cannot be set later."""

import pytest

from odradek.config import broker
from odradek.config.availability import unavailable_setting_problems
from odradek.config.dynamic.alter_configs import AlterOperation, alter_broker, replace_broker
from odradek.config.dynamic.broker_config import DynamicBrokerConfig
from odradek.config.sources import load
from odradek.model.errors import BrokerError, ConfigError, ErrorCode

PROTECTIVE = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:admin",
    "allow.everyone.if.no.acl.found": "false",
    "create.topic.policy.class.name": "com.example.Policy",
    "alter.config.policy.class.name": "com.example.Policy",
    "principal.builder.class": "com.example.Principals",
    "security.providers": "com.example.Providers",
    "ssl.client.auth": "required",
    "ssl.principal.mapping.rules": "RULE:^CN=(.*?)$/$1/",
    "connections.max.reauth.ms": "3600000",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    "sasl.jaas.config": "com.example.Login required;",
    "sasl.server.callback.handler.class": "com.example.Handler",
    "sasl.oauthbearer.expected.audience": "kafka",
    "sasl.oauthbearer.expected.issuer": "https://example.com",
    "sasl.oauthbearer.jwks.endpoint.url": "https://example.com/jwks",
    "delegation.token.master.key": "secret",
    "delegation.token.secret.key": "secret",
    "password.encoder.secret": "secret",
    "password.encoder.old.secret": "secret",
    "client.quota.callback.class": "com.example.Quotas",
    "max.connection.creation.rate": "10",
    "zookeeper.set.acl": "true",
    "zookeeper.ssl.client.enable": "true",
    "zookeeper.connect": "localhost:2181",
}
ON_LISTENERS = [
    ("listener.name.internal.ssl.client.auth", "required"),
    ("listener.name.internal.max.connection.creation.rate", "10"),
    ("listener.name.internal.scram-sha-256.sasl.jaas.config", "com.example.Login required;"),
]


@pytest.mark.parametrize(("name", "value"), [*PROTECTIVE.items(), *ON_LISTENERS])
def test_a_promise_of_protection_stops_the_start_with_one_line_that_names_it(name: str, value: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(None, {}, [f"{name}={value}"])
    [line] = refused.value.problems
    assert line.startswith(f"{name}: ")
    assert "secret" not in line.removeprefix(name)


def test_the_table_marks_what_is_tested_here_and_nothing_else() -> None:
    marked = {setting.name for setting in broker.BROKER if setting.refused}
    assert marked == PROTECTIVE.keys() - {"super.users", "allow.everyone.if.no.acl.found"}


@pytest.mark.parametrize("name", PROTECTIVE)
def test_the_default_is_no_promise(name: str) -> None:
    setting = broker.BY_NAME.get(name)
    default = {"super.users": "", "allow.everyone.if.no.acl.found": "true"}.get(name, "")
    text = default if setting is None else setting.text(setting.default)
    if text is not None:
        assert unavailable_setting_problems({name: text}) == []


@pytest.mark.parametrize("per_broker", [True, False])
@pytest.mark.parametrize(("name", "value"), [*PROTECTIVE.items(), *ON_LISTENERS])
def test_it_cannot_be_set_while_the_broker_runs(name: str, value: str, per_broker: bool) -> None:
    layers = DynamicBrokerConfig({})
    for change in (
        lambda: alter_broker(layers, [AlterOperation(name, 0, value)], per_broker=per_broker),
        lambda: replace_broker(layers, [(name, value)], per_broker=per_broker),
    ):
        with pytest.raises(BrokerError) as refused:
            change()
        assert refused.value.code is ErrorCode.INVALID_REQUEST
        assert name in (refused.value.message or "")


def test_one_that_was_stored_before_is_passed_over_with_a_line_that_says_so() -> None:
    layers = DynamicBrokerConfig({})
    [line] = layers.set_broker_overrides({"ssl.client.auth": "required", "log.retention.ms": "5"})
    assert line.startswith("ssl.client.auth: ")
    assert layers.broker_overrides == {"log.retention.ms": "5"}
    assert layers.broker[broker.SSL_CLIENT_AUTH] == "none"
