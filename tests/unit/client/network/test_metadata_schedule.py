"""When metadata is due, and what is asked for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from odradek.client.network.metadata_schedule import MetadataSchedule

AGE_MS, IDLE_MS = 300_000, 60_000


def make():
    return MetadataSchedule(AGE_MS, IDLE_MS, lambda fruitless: 100 * 2**fruitless)


def answered(interest, now_ms, **how):
    asked = interest.begin(now_ms)
    interest.answer(now_ms, **{"is_news": True, "is_unsettled": False, **how})
    return asked


def test_metadata_is_wanted_from_the_start():
    assert make().due_at_ms() == 0


def test_an_answer_is_good_until_it_is_old():
    interest = make()
    assert answered(interest, 1000) == []
    assert interest.due_at_ms() == 1000 + AGE_MS


def test_a_request_waits_for_the_rest_after_the_last_answer():
    interest = make()
    answered(interest, 1000)
    interest.request()
    assert interest.due_at_ms() == 1100


def test_rests_grow_while_answers_tell_nothing_new():
    interest = make()
    now_ms, rests = 0, []
    answered(interest, now_ms)
    for _ in range(4):
        interest.request()
        rests.append(interest.due_at_ms() - now_ms)
        now_ms = interest.due_at_ms()
        answered(interest, now_ms, is_news=False)
    assert rests == [100, 200, 400, 800]
    interest.request()
    now_ms = interest.due_at_ms()
    answered(interest, now_ms, is_news=True)
    interest.request()
    assert interest.due_at_ms() == now_ms + 100


def test_failures_are_retried_with_growing_rests():
    interest = make()
    interest.begin(0)
    interest.fail(0)
    assert interest.due_at_ms() == 100
    interest.begin(100)
    interest.fail(100)
    assert interest.due_at_ms() == 300


def test_an_unsettled_answer_is_asked_for_again():
    interest = make()
    answered(interest, 0, is_unsettled=True)
    assert interest.due_at_ms() == 100


def test_new_topics_do_not_wait_and_are_asked_for_alone():
    interest = make()
    interest.follow(["a"], 0)
    answered(interest, 0)
    assert interest.follow(["b"], 10)
    assert not interest.follow(["b"], 11)
    assert interest.due_at_ms() == 10
    assert answered(interest, 10) == ["b"]
    assert interest.due_at_ms() == AGE_MS


def test_new_topics_beside_a_request_are_asked_for_with_the_others():
    interest = make()
    interest.follow(["a"], 0)
    answered(interest, 0)
    interest.request()
    interest.follow(["b"], 10)
    assert answered(interest, 10) == ["a", "b"]


def test_a_topic_that_came_while_an_answer_was_under_way_is_asked_for_next():
    interest = make()
    interest.begin(0)
    interest.follow(["a"], 5)
    interest.answer(10, is_news=True, is_unsettled=False)
    assert interest.due_at_ms() == 10
    assert interest.begin(10) == ["a"]


def test_a_failure_while_new_topics_were_asked_for_asks_for_all():
    interest = make()
    interest.follow(["a"], 0)
    answered(interest, 0)
    interest.follow(["b"], 10)
    assert interest.begin(10) == ["b"]
    interest.fail(10)
    assert interest.begin(500) == ["a", "b"]


def test_all_topics_are_asked_for_without_names():
    interest = make()
    answered(interest, 0)
    assert interest.track_all_topics(True, 50)
    assert not interest.track_all_topics(True, 51)
    assert interest.due_at_ms() == 50
    assert answered(interest, 50) is None
    assert interest.wants("anything")
    interest.track_all_topics(False, 60)
    assert not interest.wants("anything")


def test_topics_may_be_replaced():
    interest = make()
    interest.follow(["a", "b"], 0)
    answered(interest, 0)
    assert interest.track_only_topics(["b", "c"], 10)
    assert answered(interest, 10) == ["c"]
    assert not interest.track_only_topics(["b"], 20)
    interest.request()
    assert answered(interest, 500) == ["b"]


def test_topics_that_expire_go_when_they_are_not_named():
    interest = make()
    interest.follow(["kept"], 0)
    interest.follow(["a", "b", "kept"], 0, expires=True)
    interest.follow(["b"], IDLE_MS // 2, expires=True)
    interest.request()
    assert answered(interest, IDLE_MS) == ["b", "kept"]
    assert not interest.wants("a")


@given(st.lists(st.sampled_from(["request", "follow", "fail", "answer", "same", "unsettled"]), max_size=40))
def test_two_attempts_are_never_closer_than_a_rest_unless_a_topic_is_new(events):
    interest = make()
    now_ms, last_ms, is_new = 0, None, False
    for number, event in enumerate(events):
        if event == "request":
            interest.request()
        elif event == "follow":
            interest.follow([f"t{number}"], now_ms)
            is_new = True
        else:
            now_ms = max(now_ms, interest.due_at_ms())
            if last_ms is not None and not is_new:
                assert now_ms >= last_ms + 100
            interest.begin(now_ms)
            last_ms, is_new = now_ms, False
            if event == "fail":
                interest.fail(now_ms)
            else:
                interest.answer(now_ms, is_news=event != "same", is_unsettled=event == "unsettled")
