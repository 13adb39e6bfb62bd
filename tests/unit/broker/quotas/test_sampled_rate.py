"""Sampled rates, against Kafka's ring of samples written down plainly."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.quotas.sampled_rate import SampledRate


class KafkaRate:
    """Kafka's ``Rate``: a ring of one sample more than configured, whose old samples are reset in place."""

    def __init__(self, count: int, sample_ms: int) -> None:
        self.count, self.sample_ms, self.current = count, sample_ms, 0
        self.samples: list[list[float]] = []  # start, last event, value

    def record(self, value: float, now_ms: int) -> None:
        if not self.samples:
            self.samples.append([now_ms, now_ms, 0.0])
        if now_ms - self.samples[self.current][0] >= self.sample_ms:
            self.current = (self.current + 1) % (self.count + 1)
            if self.current >= len(self.samples):
                self.samples.append([now_ms, now_ms, 0.0])
            else:
                self.samples[self.current] = [now_ms, now_ms, 0.0]
        self.samples[self.current][1] = now_ms
        self.samples[self.current][2] += value

    def measure(self, now_ms: int) -> tuple[float, int]:
        for index, sample in enumerate(self.samples):
            if now_ms - sample[1] >= self.count * self.sample_ms:
                self.samples[index] = [now_ms, now_ms, 0.0]
        elapsed = now_ms - int(min(sample[0] for sample in self.samples))
        full = elapsed // self.sample_ms
        if full < self.count - 1:
            elapsed += (self.count - 1 - full) * self.sample_ms
        window_ms = max(elapsed, 1)
        return sum(sample[2] for sample in self.samples) * 1000 / window_ms, window_ms


@given(
    st.integers(1, 5),
    st.sampled_from([1, 7, 1000]),
    st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 100)), min_size=1, max_size=60),
)
def test_rate_is_the_one_of_kafka(count: int, sample_ms: int, events: list[tuple[int, int]]) -> None:
    rate, kafka, now_ms = SampledRate(count, sample_ms), KafkaRate(count, sample_ms), 0
    for pause_ms, value in events:
        now_ms += pause_ms
        rate.record(value, now_ms)
        kafka.record(value, now_ms)
        assert (rate.per_second(now_ms), rate.window_ms(now_ms)) == kafka.measure(now_ms)


def test_rate_without_values_is_zero() -> None:
    rate = SampledRate(11, 1000)
    assert (rate.per_second(5), rate.window_ms(5), rate.throttle_time_ms(10, 5)) == (0, 10_000, 0)
    assert SampledRate(1, 1000).window_ms(5) == 1


def test_values_leave_the_window_together_with_their_sample() -> None:
    rate = SampledRate(2, 1000)
    rate.record(10, 0)
    rate.record(10, 999)
    assert rate.per_second(2998) > 0
    assert rate.per_second(2999) == 0
