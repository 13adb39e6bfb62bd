"""Types of client options, for type checkers.

Names are Kafka's with underscores. A test compares them with the tables in ``config.client``, in both
directions. Not used at run time: ``options.parsing`` reads and checks options.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Literal, TypeAlias, TypedDict

from odradek.client.environment import ClientEnvironment
from odradek.model.secret import Secret

Config: TypeAlias = Mapping[str, object] | None
"""Options under Kafka's names, with dots or underscores."""

Milliseconds: TypeAlias = int | timedelta
StringList: TypeAlias = str | list[str] | tuple[str, ...] | set[str] | frozenset[str]
"""A collection of strings, or one comma-separated string."""

Acks: TypeAlias = Literal["all", "-1", "0", "1", -1, 0, 1]
Compression: TypeAlias = Literal["none", "gzip", "snappy", "lz4", "zstd"]
DnsLookup: TypeAlias = Literal["use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"]
GroupProtocol: TypeAlias = Literal["classic"]
Isolation: TypeAlias = Literal["read_committed", "read_uncommitted"]
MetadataRecovery: TypeAlias = Literal["none", "rebootstrap"]
OffsetReset: TypeAlias = Literal["latest", "earliest", "none"]
RecordingLevel: TypeAlias = Literal["INFO", "DEBUG", "TRACE"]
SecurityProtocol: TypeAlias = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
AssignorName: TypeAlias = Literal[
    "range",
    "roundrobin",
    "sticky",
    "cooperative-sticky",
    "org.apache.kafka.clients.consumer.RangeAssignor",
    "org.apache.kafka.clients.consumer.RoundRobinAssignor",
    "org.apache.kafka.clients.consumer.StickyAssignor",
    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
]
AssignmentStrategy: TypeAlias = AssignorName | list[AssignorName] | tuple[AssignorName, ...]


class ConnectionOptions(TypedDict, total=False):
    """Options of all clients."""

    metadata_broker_list: StringList | None
    bootstrap_servers: StringList | None
    client_id: str | None
    client_dns_lookup: DnsLookup | None
    metadata_max_age_ms: Milliseconds | None
    metadata_recovery_strategy: MetadataRecovery | None
    send_buffer_bytes: int | None
    receive_buffer_bytes: int | None
    reconnect_backoff_ms: Milliseconds | None
    reconnect_backoff_max_ms: Milliseconds | None
    retry_backoff_ms: Milliseconds | None
    retry_backoff_max_ms: Milliseconds | None
    request_timeout_ms: Milliseconds | None
    connections_max_idle_ms: Milliseconds | None
    socket_connection_setup_timeout_ms: Milliseconds | None
    socket_connection_setup_timeout_max_ms: Milliseconds | None
    security_protocol: SecurityProtocol | None
    metrics_num_samples: int | None
    metrics_sample_window_ms: Milliseconds | None
    metrics_recording_level: RecordingLevel | None
    metric_reporters: StringList | None
    auto_include_jmx_reporter: bool | None
    enable_metrics_push: bool | None
    security_providers: str | None
    ssl_protocol: str | None
    ssl_provider: str | None
    ssl_enabled_protocols: StringList | None
    ssl_keystore_type: str | None
    ssl_keystore_location: str | None
    ssl_keystore_password: str | Secret | None
    ssl_key_password: str | Secret | None
    ssl_keystore_key: str | Secret | None
    ssl_keystore_certificate_chain: str | Secret | None
    ssl_truststore_type: str | None
    ssl_truststore_location: str | None
    ssl_truststore_password: str | Secret | None
    ssl_truststore_certificates: str | Secret | None
    ssl_keymanager_algorithm: str | None
    ssl_trustmanager_algorithm: str | None
    ssl_endpoint_identification_algorithm: str | None
    ssl_secure_random_implementation: str | None
    ssl_cipher_suites: StringList | None
    ssl_engine_factory_class: str | None
    ssl_ca_location: str | None
    ssl_certificate_location: str | None
    ssl_key_location: str | None
    ssl_cafile: str | None
    ssl_certfile: str | None
    ssl_keyfile: str | None
    sasl_mechanism: str | None
    sasl_mechanisms: str | None
    sasl_jaas_config: str | Secret | None
    sasl_username: str | None
    sasl_password: str | Secret | None
    sasl_plain_username: str | None
    sasl_plain_password: str | Secret | None
    sasl_oauthbearer_client_id: str | None
    sasl_oauthbearer_client_secret: str | Secret | None
    sasl_oauthbearer_scope: str | None
    sasl_client_callback_handler_class: str | None
    sasl_login_class: str | None
    sasl_login_callback_handler_class: str | None
    sasl_kerberos_service_name: str | None
    sasl_kerberos_kinit_cmd: str | None
    sasl_kerberos_ticket_renew_window_factor: float | None
    sasl_kerberos_ticket_renew_jitter: float | None
    sasl_kerberos_min_time_before_relogin: int | None
    sasl_login_refresh_window_factor: float | None
    sasl_login_refresh_window_jitter: float | None
    sasl_login_refresh_min_period_seconds: int | None
    sasl_login_refresh_buffer_seconds: int | None
    sasl_login_connect_timeout_ms: Milliseconds | None
    sasl_login_read_timeout_ms: Milliseconds | None
    sasl_login_retry_backoff_ms: Milliseconds | None
    sasl_login_retry_backoff_max_ms: Milliseconds | None
    sasl_oauthbearer_scope_claim_name: str | None
    sasl_oauthbearer_sub_claim_name: str | None
    sasl_oauthbearer_token_endpoint_url: str | None
    sasl_oauthbearer_header_urlencode: bool | None
    sasl_oauthbearer_jwks_endpoint_url: str | None
    sasl_oauthbearer_jwks_endpoint_refresh_ms: Milliseconds | None
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms: Milliseconds | None
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms: Milliseconds | None
    sasl_oauthbearer_clock_skew_seconds: int | None
    sasl_oauthbearer_expected_audience: StringList | None
    sasl_oauthbearer_expected_issuer: str | None


class ProducerOptions(ConnectionOptions, total=False):
    """Options of producers, without the serializers."""

    metadata_max_idle_ms: Milliseconds | None
    max_in_flight_requests_per_connection: int | None
    partitioner_class: None
    interceptor_classes: None
    acks: Acks | None
    enable_idempotence: bool | None
    transactional_id: str | None
    transaction_timeout_ms: Milliseconds | None
    retries: int | None
    delivery_timeout_ms: Milliseconds | None
    linger_ms: Milliseconds | None
    batch_size: int | None
    batch_backlog_size: int | None
    buffer_memory: int | None
    max_block_ms: Milliseconds | None
    max_request_size: int | None
    compression_type: Compression | None
    compression_gzip_level: int | None
    compression_lz4_level: int | None
    compression_zstd_level: int | None
    partitioner_ignore_keys: bool | None
    partitioner_adaptive_partitioning_enable: bool | None
    partitioner_availability_timeout_ms: Milliseconds | None


class ConsumerOptions(ConnectionOptions, total=False):
    """Options of consumers, without the deserializers."""

    client_rack: str | None
    allow_auto_create_topics: bool | None
    default_api_timeout_ms: Milliseconds | None
    interceptor_classes: None
    group_id: str | None
    group_instance_id: str | None
    group_protocol: GroupProtocol | None
    group_remote_assignor: None
    partition_assignment_strategy: AssignmentStrategy | None
    session_timeout_ms: Milliseconds | None
    heartbeat_interval_ms: Milliseconds | None
    max_poll_interval_ms: Milliseconds | None
    max_poll_records: int | None
    enable_auto_commit: bool | None
    auto_commit_interval_ms: Milliseconds | None
    auto_offset_reset: OffsetReset | None
    isolation_level: Isolation | None
    fetch_min_bytes: int | None
    fetch_max_bytes: int | None
    fetch_max_wait_ms: Milliseconds | None
    max_partition_fetch_bytes: int | None
    check_crcs: bool | None
    exclude_internal_topics: bool | None
    internal_leave_group_on_close: bool | None
    internal_throw_on_fetch_stable_offset_unsupported: bool | None


class AdminOptions(ConnectionOptions, total=False):
    """Options of admin clients."""

    default_api_timeout_ms: Milliseconds | None
    retries: int | None
    bootstrap_controllers: None


class AdminArguments(AdminOptions, total=False):
    """All keyword arguments of an admin client."""

    environment: ClientEnvironment | None
