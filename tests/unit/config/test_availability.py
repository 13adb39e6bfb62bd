"""Settings that are not available: they prevent the start, and cannot be set at run time."""

import pytest

from odradek.config import broker
from odradek.config.availability import unavailable_setting_problems
from odradek.config.dynamic.alter_configs import AlterOperation, alter_broker, replace_broker
from odradek.config.dynamic.broker_config import DynamicBrokerConfig
from odradek.config.sources import load
from odradek.model.errors import BrokerError, ConfigError, ErrorCode

UNAVAILABLE = {
    "create.topic.policy.class.name": "com.example.Policy",
    "alter.config.policy.class.name": "com.example.Policy",
    "principal.builder.class": "com.example.Principals",
    "security.providers": "com.example.Providers",
    "ssl.engine.factory.class": "com.example.Engines",
    "password.encoder.secret": "secret",
    "password.encoder.old.secret": "secret",
    "client.quota.callback.class": "com.example.Quotas",
    "zookeeper.ssl.cipher.suites": "TLS_AES_128_GCM_SHA256",
    "zookeeper.ssl.crl.enable": "true",
    "zookeeper.ssl.ocsp.enable": "true",
}
OF_AUTHORIZER = {
    "authorizer.zookeeper.url": "zookeeper:2181",
    "authorizer.zookeeper.ssl.client.enable": "true",
}
ON_LISTENERS = [
    ("listener.name.internal.ssl.engine.factory.class", "com.example.Engines"),
]


@pytest.mark.parametrize(("name", "value"), [*UNAVAILABLE.items(), *OF_AUTHORIZER.items(), *ON_LISTENERS])
def test_unavailable_setting_prevents_the_start_with_one_line(name: str, value: str) -> None:
    with pytest.raises(ConfigError) as error:
        load(None, {}, [f"{name}={value}"])
    [line] = error.value.problems
    assert line.startswith(f"{name}: ")
    assert "secret" not in line.removeprefix(name)


def test_exactly_the_tested_settings_are_marked_unavailable() -> None:
    marked = {setting.name for setting in broker.BROKER if setting.unavailable}
    assert marked == UNAVAILABLE.keys()


@pytest.mark.parametrize("name", UNAVAILABLE)
def test_default_of_an_unavailable_setting_is_accepted(name: str) -> None:
    setting = broker.BY_NAME[name]
    text = setting.format_value(setting.default)
    if text is not None:
        assert unavailable_setting_problems({name: text}) == []


@pytest.mark.parametrize("per_broker", [True, False])
@pytest.mark.parametrize(("name", "value"), [*UNAVAILABLE.items(), *ON_LISTENERS])
def test_unavailable_setting_cannot_be_set_at_run_time(name: str, value: str, per_broker: bool) -> None:
    config = DynamicBrokerConfig({})
    for change in (
        lambda: alter_broker(config, {}, [AlterOperation(name, 0, value)], per_broker=per_broker),
        lambda: replace_broker(config, [(name, value)], per_broker=per_broker),
    ):
        with pytest.raises(BrokerError) as error:
            change()
        assert error.value.code is ErrorCode.INVALID_REQUEST
        assert name in (error.value.message or "")


def test_stored_override_of_an_unavailable_setting_is_skipped_with_a_line() -> None:
    config = DynamicBrokerConfig({})
    name = "ssl.engine.factory.class"
    [line] = config.set_broker_overrides({name: "com.example.Engines", "log.retention.ms": "5"})
    assert line.startswith(f"{name}: ")
    assert config.broker_overrides == {"log.retention.ms": "5"}
    assert config.broker[broker.SSL_ENGINE_FACTORY_CLASS] is None
