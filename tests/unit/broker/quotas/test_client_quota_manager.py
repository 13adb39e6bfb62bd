"""Client quotas: Kafka's own cases (``ClientQuotaManagerTest``), and the ends of the formulas."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.quotas.client_quota_manager import ClientQuotaManager
from odradek.broker.quotas.client_sensors import INACTIVE_MS_MAX
from odradek.broker.quotas.quota_entities import DEFAULT, EntityName, QuotaEntity
from odradek.broker.quotas.throttle_time import THROTTLE_MS_MAX

SAMPLES, SAMPLE_MS = 11, 1000
USER_A, USER_B, USER_C = "userA", "userB", "userC"


def make_manager(samples: int = SAMPLES, **options: int) -> ClientQuotaManager:
    return ClientQuotaManager(samples, SAMPLE_MS, **options)


def user(name: EntityName) -> QuotaEntity:
    return QuotaEntity(name, None)


def client(name: EntityName) -> QuotaEntity:
    return QuotaEntity(None, name)


def check(
    manager: ClientQuotaManager, name: str, client_id: str, bound: float | None, value: int, throttles: bool
) -> None:
    """Check the quota of a client, record a value per sample, and check whether it is throttled."""
    assert manager.quota(name, client_id) == bound
    assert manager.max_value_in_window(name, client_id) == (None if bound is None else bound * 10)
    throttle_ms = manager.record_and_get_throttle_time_ms(name, client_id, value * SAMPLES, 0)
    assert (throttle_ms > 0) is throttles


PARSED = [
    (client("p1"), client("p2"), client(DEFAULT), "ANONYMOUS", "ANONYMOUS"),
    (user("User1"), user("User2"), user(DEFAULT), "User1", "User2"),
    (
        QuotaEntity("User1", "p1"),
        QuotaEntity("User2", "p2"),
        QuotaEntity(DEFAULT, DEFAULT),
        "User1",
        "User2",
    ),
]


@pytest.mark.parametrize(("first", "second", "default", "user1", "user2"), PARSED)
def test_quotas_are_set_changed_and_removed(
    first: QuotaEntity, second: QuotaEntity, default: QuotaEntity, user1: str, user2: str
) -> None:
    manager = make_manager()

    def record(value: int) -> int:
        return manager.record_and_get_throttle_time_ms(user1, "p1", value, 0)

    manager.update_quota(first, 2000)
    manager.update_quota(second, 4000)
    assert manager.quota("RandomUser", "random-client-id") is None
    assert (manager.quota(user1, "p1"), manager.quota(user2, "p2")) == (2000, 4000)
    assert record(2500 * SAMPLES) > 0
    manager.update_quota(first, 3000)
    assert record(0) == 0
    manager.update_quota(first, 500)
    assert record(0) > 0
    manager.update_quota(first, None)
    manager.update_quota(default, 4000)
    assert manager.quota(user1, "p1") == 4000
    assert record(1000 * SAMPLES) == 0


@pytest.mark.parametrize("entity", [user(DEFAULT), user(USER_A), QuotaEntity(USER_A, "client1")])
def test_removing_the_only_quota_ends_throttling(entity: QuotaEntity) -> None:
    manager = make_manager()
    assert not manager.is_enabled
    manager.update_quota(entity, 10)
    assert manager.is_enabled
    check(manager, USER_A, "client1", 10, 1000, throttles=True)
    manager.update_quota(entity, None)
    assert not manager.is_enabled
    check(manager, USER_A, "client1", None, 1000, throttles=False)


def test_most_specific_quota_applies_and_is_shared_at_its_level() -> None:
    """The sequence of Kafka's ``testQuotaConfigPrecedence``."""
    manager = make_manager()
    manager.update_quota(user(DEFAULT), 1000)
    manager.update_quota(client(DEFAULT), 2000)
    manager.update_quota(QuotaEntity(DEFAULT, DEFAULT), 3000)
    manager.update_quota(user(USER_A), 4000)
    manager.update_quota(QuotaEntity(USER_A, "client1"), 5000)
    manager.update_quota(user(USER_B), 6000)
    manager.update_quota(QuotaEntity(USER_B, "client1"), 7000)
    manager.update_quota(QuotaEntity(USER_B, DEFAULT), 8000)
    manager.update_quota(user(USER_C), 10000)
    manager.update_quota(client("client1"), 9000)
    check(manager, USER_A, "client1", 5000, 4500, throttles=False)
    check(manager, USER_A, "client2", 4000, 4500, throttles=True)
    check(manager, USER_A, "client3", 4000, 0, throttles=True)  # shared by the clients of the user
    check(manager, USER_A, "client1", 5000, 0, throttles=False)  # not shared with other clients
    check(manager, USER_B, "client1", 7000, 8000, throttles=True)
    check(manager, USER_B, "client2", 8000, 7000, throttles=False)
    check(manager, USER_B, "client3", 8000, 7000, throttles=False)
    check(manager, "userD", "client1", 3000, 3500, throttles=True)
    check(manager, "userD", "client2", 3000, 2500, throttles=False)
    check(manager, "userE", "client1", 3000, 2500, throttles=False)
    manager.update_quota(QuotaEntity(DEFAULT, DEFAULT), None)
    check(manager, "userD", "client1", 1000, 0, throttles=False)  # counted anew, by user
    check(manager, "userE", "client4", 1000, 1500, throttles=True)
    check(manager, "userF", "client4", 1000, 800, throttles=False)
    check(manager, "userF", "client5", 1000, 800, throttles=True)
    manager.update_quota(user(DEFAULT), None)
    check(manager, "userF", "client4", 2000, 0, throttles=False)
    check(manager, "userF", "client5", 2000, 0, throttles=False)
    check(manager, "userF", "client5", 2000, 2500, throttles=True)
    check(manager, "userG", "client5", 2000, 0, throttles=True)  # a client id is shared by all users
    manager.update_quota(user(USER_A), 8000)
    manager.update_quota(QuotaEntity(USER_A, "client1"), 10000)
    check(manager, USER_A, "client2", 8000, 0, throttles=False)
    check(manager, USER_A, "client2", 8000, 4500, throttles=True)
    check(manager, USER_A, "client1", 10000, 0, throttles=False)
    check(manager, USER_A, "client1", 10000, 6000, throttles=True)
    manager.update_quota(QuotaEntity(USER_A, "client1"), None)
    check(manager, USER_A, "client6", 8000, 0, throttles=True)
    manager.update_quota(QuotaEntity(USER_A, "client6"), 11000)
    check(manager, USER_A, "client6", 11000, 8500, throttles=False)
    manager.update_quota(QuotaEntity(USER_A, DEFAULT), 12000)
    manager.update_quota(QuotaEntity(USER_A, "client6"), None)
    check(manager, USER_A, "client6", 12000, 4000, throttles=True)


ORDER = [
    (QuotaEntity(USER_A, "app"), (USER_A, "app")),
    (QuotaEntity(USER_A, DEFAULT), (USER_A, "app")),
    (user(USER_A), (USER_A, "")),
    (QuotaEntity(DEFAULT, "app"), (USER_A, "app")),
    (QuotaEntity(DEFAULT, DEFAULT), (USER_A, "app")),
    (user(DEFAULT), (USER_A, "")),
    (client("app"), ("", "app")),
    (client(DEFAULT), ("", "app")),
]


@given(st.sets(st.sampled_from(range(len(ORDER))), min_size=1))
def test_first_quota_in_the_documented_order_applies(present: set[int]) -> None:
    manager = make_manager()
    for index in present:
        manager.update_quota(ORDER[index][0], 100 + index)
    assert manager.quota(USER_A, "app") == 100 + min(present)


def test_quota_of_the_default_user_is_not_the_one_of_a_user_called_default() -> None:
    manager = make_manager()
    manager.update_quota(user("<default>"), 10)
    assert manager.quota(USER_A, "app") is None
    assert manager.quota("<default>", "app") == 10


def test_client_without_an_id_has_quotas_of_its_user_only() -> None:
    manager = make_manager()
    manager.update_quota(client(DEFAULT), 10)
    assert manager.quota(USER_A, "") is None
    manager.update_quota(QuotaEntity(USER_A, DEFAULT), 20)
    assert manager.quota(USER_A, "") is None
    manager.update_quota(user(DEFAULT), 30)
    assert manager.quota(USER_A, "") == 30
    manager.update_quota(user(USER_A), 40)
    assert manager.quota(USER_A, "") == 40


def test_throttle_time_brings_the_rate_of_the_window_down() -> None:
    """The numbers of Kafka's ``testQuotaViolation``."""
    manager = make_manager()
    manager.update_quota(client(DEFAULT), 500)
    now_ms = 0

    def record(value: int) -> int:
        return manager.record_and_get_throttle_time_ms("ANONYMOUS", "unknown", value, now_ms)

    for _ in range(10):
        assert record(400) == 0
        now_ms += 1000
    now_ms += 500
    # 4000 + 2300 bytes in 10.5 s are 600 per second: (600 - 500) / 500 * 10.5 s.
    assert record(2300) == 2100
    now_ms += 2100
    for _ in range(10):
        record(400)
        now_ms += 1000
    assert record(0) == 0, "the burst is out of the window"


def test_window_can_be_shorter() -> None:
    manager = make_manager(4)
    assert manager.max_value_in_window(USER_A, "client1") is None
    manager.update_quota(user(DEFAULT), 10)
    assert manager.max_value_in_window(USER_A, "client1") == 30


def test_largest_value_in_the_window_is_not_throttled_and_a_larger_one_is() -> None:
    for more, throttles in ((0, False), (1, True)):
        manager = make_manager()
        manager.update_quota(user(USER_A), 100)
        largest = manager.max_value_in_window(USER_A, "")
        assert largest == 1000
        assert (manager.record_and_get_throttle_time_ms(USER_A, "", largest + more, 77) > 0) is throttles


def test_unrecorded_value_does_not_count() -> None:
    manager = make_manager()
    manager.update_quota(user(USER_A), 100)
    assert manager.record_and_get_throttle_time_ms(USER_A, "", 5000, 0) > 0
    manager.record_no_throttle(USER_A, "", -5000, 0)
    assert manager.record_and_get_throttle_time_ms(USER_A, "", 1000, 10) == 0


def test_time_recorded_without_throttling_counts_for_the_next_request() -> None:
    manager = make_manager()
    manager.update_quota(user(USER_A), 100)
    manager.record_no_throttle(USER_A, "", 5000, 0)
    assert manager.record_and_get_throttle_time_ms(USER_A, "", 0, 0) == 40_000


@pytest.mark.parametrize(("bound", "throttle_ms"), [(0, 10_000), (-1, 10_000), (1e-9, THROTTLE_MS_MAX)])
def test_throttle_time_is_bounded(bound: float, throttle_ms: int) -> None:
    manager = make_manager()
    manager.update_quota(user(USER_A), bound)
    assert manager.record_and_get_throttle_time_ms(USER_A, "", 1000, 0) == throttle_ms


def test_throttle_time_of_the_request_quota_is_at_most_one_sample() -> None:
    manager = make_manager(throttle_ms_max=1000)
    manager.update_quota(user(USER_A), 1)
    assert manager.record_and_get_throttle_time_ms(USER_A, "", 10, 0) == 0
    assert manager.record_and_get_throttle_time_ms(USER_A, "", 0.5, 0) == 500
    assert manager.record_and_get_throttle_time_ms(USER_A, "", 100_000, 0) == 1000


def test_clients_without_a_quota_are_not_measured() -> None:
    manager = make_manager()
    manager.update_quota(user(USER_A), 10)
    for number in range(100):
        assert manager.record_and_get_throttle_time_ms(USER_B, f"client-{number}", 1000, 0) == 0
    assert manager.sensor_count == 0


def test_sensors_of_idle_clients_expire() -> None:
    manager = make_manager()
    manager.update_quota(client(DEFAULT), 10)
    for number in range(100):
        manager.record_and_get_throttle_time_ms("", f"client-{number}", 1, number)
    manager.record_and_get_throttle_time_ms("", "client-0", 1, 1000)
    manager.expire_sensors(INACTIVE_MS_MAX + 49)
    assert manager.sensor_count == 52  # 49 to 99, and the one that was used again
    manager.expire_sensors(INACTIVE_MS_MAX + 1001)
    assert manager.sensor_count == 0


def test_number_of_sensors_is_bounded() -> None:
    manager = make_manager(sensors_max=10)
    manager.update_quota(client(DEFAULT), 10)
    for number in range(1000):
        manager.record_and_get_throttle_time_ms("", f"client-{number}", 100_000, 0)
    assert manager.sensor_count == 10
    assert manager.record_and_get_throttle_time_ms("", "client-999", 0, 0) > 0, "the last ones are kept"
    assert manager.record_and_get_throttle_time_ms("", "client-0", 0, 0) == 0


def test_memory_of_long_client_ids_is_bounded() -> None:
    manager = make_manager()
    manager.update_quota(client(DEFAULT), 10)
    names = ["x" * 32_000 + str(number) for number in range(3)]
    for name in names:
        assert manager.record_and_get_throttle_time_ms("", name, 80, 0) == 0, "they are counted apart"
    assert manager.record_and_get_throttle_time_ms("", names[0], 80, 0) > 0
    assert all(len(key) <= 256 for keys in manager._sensors._entries for key in keys)  # type: ignore[attr-defined]
