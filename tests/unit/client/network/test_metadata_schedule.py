"""Times and topics of metadata requests."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from odradek.client.network.metadata_schedule import MetadataSchedule

AGE_MS, IDLE_MS = 300_000, 60_000


def make():
    return MetadataSchedule(AGE_MS, IDLE_MS, lambda attempts: 100 * 2**attempts)


def respond(schedule, now_ms, **result):
    topics = schedule.begin_request(now_ms)
    schedule.on_response(now_ms, **{"is_changed": True, "is_stale": False, **result})
    return topics


def test_metadata_is_due_initially():
    assert make().due_at_ms() == 0


def test_next_update_is_due_after_max_age():
    schedule = make()
    assert respond(schedule, 1000) == []
    assert schedule.due_at_ms() == 1000 + AGE_MS


def test_requested_update_waits_for_the_backoff():
    schedule = make()
    respond(schedule, 1000)
    schedule.request_update()
    assert schedule.due_at_ms() == 1100


def test_backoff_grows_to_a_short_maximum_while_responses_change_nothing():
    schedule = make()
    now_ms, backoffs = 0, []
    respond(schedule, now_ms)
    for _ in range(5):
        schedule.request_update()
        backoffs.append(schedule.due_at_ms() - now_ms)
        now_ms = schedule.due_at_ms()
        respond(schedule, now_ms, is_changed=False)
    assert backoffs == [100, 200, 400, 400, 400]
    schedule.request_update()
    now_ms = schedule.due_at_ms()
    respond(schedule, now_ms, is_changed=True)
    schedule.request_update()
    assert schedule.due_at_ms() == now_ms + 100


def test_failures_are_retried_with_growing_backoff():
    schedule = make()
    schedule.begin_request(0)
    schedule.on_failure(0)
    assert schedule.due_at_ms() == 100
    schedule.begin_request(100)
    schedule.on_failure(100)
    assert schedule.due_at_ms() == 300
    for _ in range(3):
        now_ms = schedule.due_at_ms()
        schedule.begin_request(now_ms)
        schedule.on_failure(now_ms)
    assert schedule.due_at_ms() == now_ms + 1600


def test_response_with_stale_partitions_is_requested_again():
    schedule = make()
    respond(schedule, 0, is_stale=True)
    assert schedule.due_at_ms() == 100


def test_new_topics_skip_the_backoff_and_are_requested_alone():
    schedule = make()
    schedule.track_topics(["a"], 0)
    respond(schedule, 0)
    assert schedule.track_topics(["b"], 10)
    assert not schedule.track_topics(["b"], 11)
    assert schedule.due_at_ms() == 10
    assert respond(schedule, 10) == ["b"]
    assert schedule.due_at_ms() == AGE_MS


def test_new_topics_join_a_requested_full_update():
    schedule = make()
    schedule.track_topics(["a"], 0)
    respond(schedule, 0)
    schedule.request_update()
    schedule.track_topics(["b"], 10)
    assert respond(schedule, 10) == ["a", "b"]


def test_topic_added_during_a_request_is_requested_next():
    schedule = make()
    schedule.begin_request(0)
    schedule.track_topics(["a"], 5)
    schedule.on_response(10, is_changed=True, is_stale=False)
    assert schedule.due_at_ms() == 10
    assert schedule.begin_request(10) == ["a"]


def test_failed_partial_request_is_followed_by_a_full_update():
    schedule = make()
    schedule.track_topics(["a"], 0)
    respond(schedule, 0)
    schedule.track_topics(["b"], 10)
    assert schedule.begin_request(10) == ["b"]
    schedule.on_failure(10)
    assert schedule.begin_request(500) == ["a", "b"]


def test_all_topics_are_requested_with_none():
    schedule = make()
    respond(schedule, 0)
    assert schedule.track_all_topics(True, 50)
    assert not schedule.track_all_topics(True, 51)
    assert schedule.due_at_ms() == 50
    assert respond(schedule, 50) is None
    assert schedule.retains("anything")
    schedule.track_all_topics(False, 60)
    assert not schedule.retains("anything")


def test_track_only_topics_replaces_the_tracked_topics():
    schedule = make()
    schedule.track_topics(["a", "b"], 0)
    respond(schedule, 0)
    assert schedule.track_only_topics(["b", "c"], 10)
    assert respond(schedule, 10) == ["c"]
    assert not schedule.track_only_topics(["b"], 20)
    schedule.request_update()
    assert respond(schedule, 500) == ["b"]


def test_idle_topics_expire():
    schedule = make()
    schedule.track_topics(["kept"], 0)
    schedule.track_topics(["a", "b", "kept"], 0, expires=True)
    schedule.track_topics(["b"], IDLE_MS // 2, expires=True)
    schedule.request_update()
    assert respond(schedule, IDLE_MS) == ["b", "kept"]
    assert not schedule.retains("a")


@given(st.lists(st.sampled_from(["request", "track", "fail", "changed", "same", "stale"]), max_size=40))
def test_attempts_are_separated_by_the_backoff_unless_a_topic_is_new(events):
    schedule = make()
    now_ms, last_ms, is_new = 0, None, False
    for number, event in enumerate(events):
        if event == "request":
            schedule.request_update()
        elif event == "track":
            schedule.track_topics([f"t{number}"], now_ms)
            is_new = True
        else:
            now_ms = max(now_ms, schedule.due_at_ms())
            if last_ms is not None and not is_new:
                assert now_ms >= last_ms + 100
            schedule.begin_request(now_ms)
            last_ms, is_new = now_ms, False
            if event == "fail":
                schedule.on_failure(now_ms)
            else:
                schedule.on_response(now_ms, is_changed=event != "same", is_stale=event == "stale")
