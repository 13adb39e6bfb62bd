"""Settings of the authorizer."""

import pytest

from odradek.broker.acl_manager import make_acl_manager
from odradek.config import broker
from odradek.config.dynamic.alter_configs import AlterOperation, alter_broker
from odradek.config.dynamic.broker_config import DynamicBrokerConfig
from odradek.config.sources import load
from odradek.model.acl_enums import AclResourceType
from odradek.model.acl_operations import AclOperation
from odradek.model.errors import BrokerError, ConfigError
from odradek.security.principal import user

CLASS = "authorizer.class.name=kafka.security.authorizer.AclAuthorizer"


def test_acl_authorizer_is_known() -> None:
    loaded = load(
        None, {}, [CLASS, "super.users=User:a;User:CN=b,O=c", "allow.everyone.if.no.acl.found=true"]
    )
    assert loaded.settings[broker.AUTHORIZER_CLASS_NAME] == CLASS.partition("=")[2]
    assert loaded.warnings == ()
    assert load(None, {}, ["authorizer.class.name="]).settings[broker.AUTHORIZER_CLASS_NAME] == ""


@pytest.mark.parametrize(
    "name",
    [
        "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "kafka.security.auth.SimpleAclAuthorizer",
        "AclAuthorizer",
        "com.example.Authorizer",
    ],
)
def test_any_other_authorizer_prevents_the_start_with_one_line(name: str) -> None:
    with pytest.raises(ConfigError) as error:
        load(None, {}, [f"authorizer.class.name={name}"])
    [line] = error.value.problems
    assert line.startswith(
        f"authorizer.class.name must be empty or kafka.security.authorizer.AclAuthorizer, got {name}"
    )


@pytest.mark.parametrize("value", ["admin", "User:a,b;c", "User:a; ;:b"])
def test_invalid_super_users_prevent_the_start_with_one_line(value: str) -> None:
    with pytest.raises(ConfigError) as error:
        load(None, {}, [CLASS, f"super.users={value}"])
    [line] = error.value.problems
    assert line.startswith("super.users must be principals separated by semicolons")
    assert value.strip() in line


def test_invalid_permission_without_acls_prevents_the_start() -> None:
    with pytest.raises(ConfigError, match=r"allow\.everyone\.if\.no\.acl\.found must be true or false"):
        load(None, {}, [CLASS, "allow.everyone.if.no.acl.found=maybe"])


def test_settings_without_an_authorizer_cause_a_warning() -> None:
    loaded = load(None, {}, ["super.users=User:a", "allow.everyone.if.no.acl.found=false"])
    assert loaded.warnings == (
        "super.users: has no effect without authorizer.class.name",
        "allow.everyone.if.no.acl.found: has no effect without authorizer.class.name",
    )


def test_settings_may_be_variables() -> None:
    variables = {
        "ODRADEK_AUTHORIZER_CLASS_NAME": CLASS.partition("=")[2],
        "ODRADEK_SUPER_USERS": "User:a",
    }
    loaded = load(None, variables, [])
    assert loaded.raw_values["super.users"] == "User:a"
    assert loaded.warnings == ()


@pytest.mark.parametrize("name", ["authorizer.class.name", "super.users", "allow.everyone.if.no.acl.found"])
def test_access_control_cannot_be_changed_at_run_time(name: str) -> None:
    with pytest.raises(BrokerError, match=name):
        alter_broker(DynamicBrokerConfig({}), {}, [AlterOperation(name, 0, "")], per_broker=True)


class Unused:
    """Neither the store nor the clock is used before the ACLs are read."""


@pytest.mark.parametrize(
    ("values", "alice", "admin"),
    [
        ({}, False, False),
        ({"super.users": "User:admin"}, False, True),
        ({"allow.everyone.if.no.acl.found": "true"}, True, True),
        ({"allow.everyone.if.no.acl.found": "false"}, False, False),
    ],
)
def test_settings_make_the_authorizer(values: dict[str, str], alice: bool, admin: bool) -> None:
    config = DynamicBrokerConfig({"authorizer.class.name": CLASS.partition("=")[2], **values})
    manager = make_acl_manager(config, Unused(), Unused())  # type: ignore[arg-type]
    assert manager is not None
    for name, expected in (("alice", alice), ("admin", admin)):
        allowed = manager.authorizer.is_allowed(
            user(name), "h", AclOperation.READ, AclResourceType.TOPIC, "orders"
        )
        assert allowed is expected


def test_without_a_class_there_is_no_authorizer() -> None:
    config = DynamicBrokerConfig({"super.users": "User:admin"})
    assert make_acl_manager(config, Unused(), Unused()) is None  # type: ignore[arg-type]
