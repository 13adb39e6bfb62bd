"""A rate over the last samples, as Kafka measures client quotas.

Values are added to the current sample, of fixed length. A sample counts until its last value is as old as all
samples together. The rate is the sum per time since the oldest sample began, but at least over all samples
but one: a burst after a pause is averaged over the whole window.
"""

from __future__ import annotations

from collections import deque

from odradek.broker.quotas.throttle_time import rate_throttle_time_ms


class _Sample:
    __slots__ = ("last_ms", "start_ms", "value")

    def __init__(self, now_ms: int) -> None:
        self.start_ms = self.last_ms = now_ms
        self.value = 0.0


class SampledRate:
    """Sum per second over at most ``sample_count`` samples of ``sample_ms``."""

    __slots__ = ("_sample_count", "_sample_ms", "_samples")

    def __init__(self, sample_count: int, sample_ms: int) -> None:
        self._sample_count = sample_count
        self._sample_ms = sample_ms
        self._samples: deque[_Sample] = deque()

    def record(self, value: float, now_ms: int) -> None:
        """Add a value; a negative one takes back what was recorded before."""
        samples = self._samples
        if not samples or now_ms - samples[-1].start_ms >= self._sample_ms:
            self._drop_expired(now_ms)
            samples.append(_Sample(now_ms))
        current = samples[-1]
        current.value += value
        current.last_ms = now_ms

    def per_second(self, now_ms: int) -> float:
        window_ms = self.window_ms(now_ms)
        return sum(sample.value for sample in self._samples) * 1000 / window_ms

    def window_ms(self, now_ms: int) -> int:
        """Return the time that the rate refers to."""
        self._drop_expired(now_ms)
        elapsed_ms = now_ms - self._samples[0].start_ms if self._samples else 0
        missing = self._sample_count - 1 - elapsed_ms // self._sample_ms
        if missing > 0:
            elapsed_ms += missing * self._sample_ms
        return max(elapsed_ms, 1)

    def throttle_time_ms(self, bound: float, now_ms: int) -> int:
        """Return the time without values that brings the rate down to ``bound``."""
        window_ms = self.window_ms(now_ms)
        rate = sum(sample.value for sample in self._samples) * 1000 / window_ms
        return rate_throttle_time_ms(rate, bound, window_ms)

    def _drop_expired(self, now_ms: int) -> None:
        samples, span_ms = self._samples, self._sample_count * self._sample_ms
        while samples and now_ms - samples[0].last_ms >= span_ms:
            samples.popleft()
