"""Kafka's command-line tools on our secured broker print what they print on a secured Kafka."""

from __future__ import annotations

import re

from tests.mixed.harness.tool_transcript import known_apis, sorted_lines
from tests.secured_kafka.kafka_tools import (
    ACLS,
    BROKER_API_VERSIONS,
    CONFIGS,
    CONSOLE_CONSUMER,
    CONSOLE_PRODUCER,
    CONSUMER_GROUPS,
    DELEGATION_TOKENS,
    GET_OFFSETS,
    TOPICS,
    ToolPair,
    Tools,
)

LITERAL_AND_PREFIXED = ("--resource-pattern-type", "match")
PREFIXED = ("--resource-pattern-type", "prefixed")


def test_acls(pair: ToolPair) -> None:
    def acls(tools: Tools, *arguments: str, status: int = 0, user: str = "admin") -> None:
        tools.run(ACLS, *arguments, status=status, user=user)

    def script(tools: Tools) -> None:
        acls(tools, "--list")
        add = ("--add", "--allow-principal")
        acls(tools, *add, "User:alice", "--operation", "Read", "--topic", "orders")
        acls(tools, *add, "User:alice", "--consumer", "--topic", "orders", "--group", "readers")
        acls(
            tools, *add, "User:bob", "--producer", "--topic", "app-", "--transactional-id", "app-", *PREFIXED
        )
        denied = ("--deny-principal", "User:bob", "--deny-host", "10.0.0.1", "--operation", "Write")
        acls(tools, "--add", *denied, "--topic", "orders")
        acls(tools, "--add", "--deny-principal", "User:*", "--topic", "*", "--operation", "Delete")
        acls(tools, *add, "User:CN=carol,O=x", "--cluster", "--operation", "IdempotentWrite")
        acls(tools, *add, "User:carol", "--delegation-token", "t1", "--operation", "Describe")
        acls(tools, *add, "User:carol", "--user-principal", "User:dave", "--operation", "CreateTokens")
        acls(tools, "--list")
        acls(tools, "--list", "--topic", "orders")
        acls(tools, "--list", "--topic", "app-2024", *LITERAL_AND_PREFIXED)
        acls(tools, "--list", "--topic", "app-", *PREFIXED)
        acls(tools, "--list", "--principal", "User:alice")
        acls(tools, "--list", "--cluster")
        acls(tools, *add, "User:x", "--operation", "IdempotentWrite", "--topic", "orders", status=1)
        acls(tools, "--list", user="alice", status=1)
        acls(tools, *add, "User:alice", "--operation", "All", "--topic", "*", user="alice", status=1)
        acls(tools, "--remove", "--force", *denied, "--topic", "orders")
        acls(tools, "--remove", "--force", "--topic", "app-", *PREFIXED)
        acls(tools, "--remove", "--force", "--topic", "orders")
        acls(tools, "--remove", "--force", "--topic", "absent")
        acls(tools, "--list")

    pair.play(script)


def test_scram_users(pair: ToolPair) -> None:
    carol = ("--entity-type", "users", "--entity-name", "carol")

    def script(tools: Tools) -> None:
        config = "SCRAM-SHA-256=[iterations=8192,password=first],SCRAM-SHA-512=[password=second]"
        tools.run(CONFIGS, *carol, "--alter", "--add-config", config)
        tools.run(CONFIGS, *carol, "--describe")
        tools.run(CONFIGS, "--entity-type", "users", "--describe", show=sorted_lines)
        listing = ("--list", "--exclude-internal", "--topic", "absent")
        tools.run(TOPICS, *listing, user="carol", mechanism="SCRAM-SHA-256", password="first")
        tools.run(TOPICS, *listing, user="carol", mechanism="SCRAM-SHA-512", password="second")
        tools.run(TOPICS, *listing, user="carol", mechanism="SCRAM-SHA-512", password="first", status=1)
        tools.run(CONFIGS, *carol, "--alter", "--add-config", "SCRAM-SHA-512=[password=third]")
        tools.run(TOPICS, *listing, user="carol", mechanism="SCRAM-SHA-512", password="second", status=1)
        tools.run(TOPICS, *listing, user="carol", mechanism="SCRAM-SHA-512", password="third")
        tools.run(CONFIGS, *carol, "--alter", "--delete-config", "SCRAM-SHA-512")
        tools.run(TOPICS, *listing, user="carol", mechanism="SCRAM-SHA-512", password="third", status=1)
        tools.run(CONFIGS, *carol, "--alter", "--delete-config", "SCRAM-SHA-512", status=1)
        few = "SCRAM-SHA-256=[iterations=100,password=few]"
        tools.run(CONFIGS, *carol, "--alter", "--add-config", few, status=1)
        tools.run(CONFIGS, *carol, "--describe")
        tools.run(CONFIGS, *carol, "--alter", "--delete-config", "SCRAM-SHA-256")
        tools.run(CONFIGS, *carol, "--describe")

    pair.play(script)


def sorted_quotas(output: str) -> str:
    """Return lines in order, and the quotas of each line, which come from maps."""
    lines = (line.partition(" are ") for line in output.splitlines())
    return "\n".join(sorted(f"{entity}: {sorted(quotas.split(', '))}" for entity, _, quotas in lines))


def test_quotas(pair: ToolPair) -> None:
    user = ("--entity-type", "users", "--entity-name", "dave")
    client = ("--entity-type", "clients", "--entity-name", "reports")
    default_user = ("--entity-type", "users", "--entity-default")
    default_client = ("--entity-type", "clients", "--entity-default")
    address = ("--entity-type", "ips", "--entity-name", "10.1.2.3")
    default_address = ("--entity-type", "ips", "--entity-default")
    rates = "producer_byte_rate=1048576,consumer_byte_rate=2097152,request_percentage=12.5"
    entities = {
        user: rates,
        client: "consumer_byte_rate=1000000",
        (*user, *client): "controller_mutation_rate=10",
        default_user: "producer_byte_rate=2000000",
        default_client: "request_percentage=200",
        (*user, *default_client): "producer_byte_rate=3000000",
        (*default_user, *client): "producer_byte_rate=4000000",
        address: "connection_creation_rate=50",
        default_address: "connection_creation_rate=1000",
    }

    def script(tools: Tools) -> None:
        for entity, config in entities.items():
            tools.run(CONFIGS, *entity, "--alter", "--add-config", config)
            tools.run(CONFIGS, *entity, "--describe", show=sorted_quotas)
        for kind in ("users", "clients", "ips"):
            tools.run(CONFIGS, "--entity-type", kind, "--describe", show=sorted_quotas)
        users_and_clients = ("--entity-type", "users", "--entity-type", "clients")
        tools.run(CONFIGS, *users_and_clients, "--describe", show=sorted_quotas)
        tools.run(CONFIGS, *user, "--alter", "--add-config", "producer_byte_rate=-1", status=1)
        tools.run(CONFIGS, *user, "--alter", "--add-config", "producer_byte_rate=0.5", status=1)
        tools.run(CONFIGS, *user, "--alter", "--add-config", "producer_byte_rate=fast", status=1)
        tools.run(CONFIGS, *user, "--alter", "--add-config", "no_such_rate=1", status=1)
        tools.run(CONFIGS, *address, "--alter", "--add-config", "producer_byte_rate=1", status=1)
        tools.run(CONFIGS, *user, "--alter", "--delete-config", "request_percentage")
        tools.run(CONFIGS, *user, "--describe", show=sorted_quotas)
        for entity, config in entities.items():
            names = [part.partition("=")[0] for part in config.split(",")]
            left = [name for name in names if name != "request_percentage" or entity != user]
            tools.run(CONFIGS, *entity, "--alter", "--delete-config", ",".join(left))
        for kind in ("users", "clients", "ips"):
            tools.run(CONFIGS, "--entity-type", kind, "--describe", show=sorted_quotas)

    pair.play(script)


def test_records_and_groups(pair: ToolPair) -> None:
    def script(tools: Tools) -> None:
        tools.run(TOPICS, "--create", "--topic", "events", "--partitions", "1")
        tools.run(ACLS, "--add", "--allow-principal", "User:alice", "--producer", "--topic", "events")
        reader = ("--consumer", "--topic", "events", "--group", "readers")
        tools.run(ACLS, "--add", "--allow-principal", "User:bob", *reader)
        topic = ("--topic", "events")
        send = (CONSOLE_PRODUCER, *topic)
        tools.run(*send, text="one\ntwo\n", user="alice", mechanism="SCRAM-SHA-256")
        tools.run(*send, text="three\n", user="alice", mechanism="SCRAM-SHA-512")
        tools.run(*send, text="four\n", user="alice", mechanism="PLAIN")
        tools.run(*send, text="five\n", user="bob")
        options = ("--from-beginning", "--timeout-ms", "15000", "--max-messages", "4")
        read = (CONSOLE_CONSUMER, *topic, *options, "--group", "readers")
        tools.run(*read, user="bob", mechanism="SCRAM-SHA-256")
        tools.run(*read, user="alice")
        tools.run(CONSOLE_CONSUMER, *topic, *options, "--group", "others", user="bob")
        tools.run(*read, user="bob", password="wrong")
        tools.run(GET_OFFSETS, *topic)
        tools.run(GET_OFFSETS, *topic, "--time", "-2", user="bob")
        group = ("--group", "readers")
        tools.run(CONSUMER_GROUPS, "--list", show=sorted_lines)
        tools.run(CONSUMER_GROUPS, "--list", user="bob")
        tools.run(CONSUMER_GROUPS, "--list", user="alice")
        tools.run(CONSUMER_GROUPS, "--describe", *group)
        tools.run(CONSUMER_GROUPS, "--describe", *group, "--state")
        tools.run(CONSUMER_GROUPS, "--describe", *group, user="alice")
        reset = ("--reset-offsets", *topic, *group, "--to-earliest", "--execute")
        tools.run(CONSUMER_GROUPS, *reset)
        tools.run(CONSUMER_GROUPS, "--delete-offsets", *topic, *group)
        tools.run(CONSUMER_GROUPS, "--delete", *group, user="bob")
        tools.run(CONSUMER_GROUPS, "--delete", *group)
        tools.run(TOPICS, "--delete", *topic, user="alice", status=1)
        tools.run(TOPICS, "--delete", *topic)

    pair.play(script)


def test_topics(pair: ToolPair) -> None:
    def script(tools: Tools) -> None:
        allow = ("--add", "--allow-principal", "User:alice")
        tools.run(ACLS, "--add", "--allow-principal", "User:nobody", "--operation", "All", "--cluster")
        tools.run(ACLS, "--add", "--allow-principal", "User:nobody", "--operation", "All", "--topic", "*")
        a_topics = ("--operation", "DescribeConfigs", "--topic", "a-", *PREFIXED)
        tools.run(ACLS, *allow, "--operation", "Create", "--operation", "Delete", *a_topics)
        single = ("--partitions", "1", "--replication-factor", "1")
        tools.run(TOPICS, "--create", "--topic", "a-1", *single, user="alice")
        tools.run(TOPICS, "--create", "--topic", "b-1", *single, user="alice", status=1)
        tools.run(TOPICS, "--create", "--topic", "b-1", *single)
        tools.run(TOPICS, "--list", "--exclude-internal", user="alice")
        tools.run(TOPICS, "--list", "--exclude-internal", show=lambda output: "b-1" in output)
        tools.run(TOPICS, "--describe", "--topic", "a-1", user="alice")
        tools.run(TOPICS, "--describe", "--topic", "b-1", user="alice", status=1)
        tools.run(TOPICS, "--alter", "--topic", "a-1", "--partitions", "2", user="alice", status=1)
        tools.run(TOPICS, "--delete", "--topic", "a-1", user="alice")
        tools.run(TOPICS, "--delete", "--topic", "b-1", user="alice", status=1)
        tools.run(TOPICS, "--delete", "--topic", "b-1")
        topic = ("--entity-type", "topics", "--entity-name", "b-1")
        tools.run(CONFIGS, *topic, "--describe", user="alice", status=1)
        tools.run(CONFIGS, *topic, "--alter", "--add-config", "retention.ms=1", user="alice", status=1)

    pair.play(script)


def test_api_versions(pair: ToolPair) -> None:
    def script(tools: Tools) -> None:
        tools.run(BROKER_API_VERSIONS, user="alice", show=known_apis)
        tools.run(BROKER_API_VERSIONS, user="alice", password="wrong", status=1)

    pair.play(script)


def test_delegation_tokens(pair: ToolPair) -> None:
    def script(tools: Tools) -> None:
        def tokens(*arguments: str, user: str = "alice", status: int = 0) -> str:
            return tools.run(DELEGATION_TOKENS, *arguments, user=user, status=status)

        output = tokens("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob")
        row = re.search(r"^([\w-]{22})\s+([\w+/]{86}==)", output, re.MULTILINE)
        assert row is not None, output
        token, hmac = row.groups()
        tokens("--describe")
        tokens("--describe", user="bob")
        tokens("--describe", "--owner-principal", "User:alice", user="admin")
        tokens("--describe", "--owner-principal", "User:nobody", user="admin")
        own = {"user": token, "password": hmac, "is_token": True}
        as_token = {**own, "mechanism": "SCRAM-SHA-256"}
        tools.run(TOPICS, "--list", "--topic", "absent", **as_token)  # type: ignore[arg-type]
        tools.run(DELEGATION_TOKENS, "--describe", **own, status=1)  # type: ignore[arg-type]
        period = ("--renew-time-period", "3600000")
        tokens("--renew", "--hmac", hmac, *period, user="bob")
        tokens("--renew", "--hmac", hmac, *period, user="admin", status=1)
        tokens("--renew", "--hmac", "A" * 86 + "==", *period, user="bob", status=1)
        tokens("--expire", "--hmac", hmac, "--expiry-time-period", "-1")
        tokens("--describe")
        tools.run(TOPICS, "--list", "--topic", "absent", **as_token, status=1)  # type: ignore[arg-type]

    pair.play(script)
