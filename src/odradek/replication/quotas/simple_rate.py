"""A rate over the last samples, as Kafka measures replication quotas.

Values are added to the current sample, of fixed length; samples that are too old are dropped. The rate is
their sum over the time since the oldest of them began, but at least over the length of one sample, so that
the first values after a pause do not seem to be a burst.
"""

from __future__ import annotations

from collections import deque


class _Sample:
    __slots__ = ("start_ms", "total")

    def __init__(self, start_ms: int) -> None:
        self.start_ms = start_ms
        self.total = 0


class SimpleRate:
    """Sum per second over at most ``sample_count`` samples of ``window_ms``."""

    __slots__ = ("_samples", "_span_ms", "_window_ms")

    def __init__(self, sample_count: int, window_ms: int) -> None:
        self._samples: deque[_Sample] = deque()
        self._window_ms = window_ms
        self._span_ms = sample_count * window_ms

    def record(self, value: int, now_ms: int) -> None:
        self._drop_old(now_ms)
        if not self._samples or now_ms - self._samples[-1].start_ms >= self._window_ms:
            self._samples.append(_Sample(now_ms))
        self._samples[-1].total += value

    def per_second(self, now_ms: int) -> float:
        self._drop_old(now_ms)
        if not self._samples:
            return 0.0
        elapsed_ms = max(now_ms - self._samples[0].start_ms, self._window_ms)
        return sum(sample.total for sample in self._samples) * 1000 / elapsed_ms

    def _drop_old(self, now_ms: int) -> None:
        while self._samples and now_ms - self._samples[0].start_ms >= self._span_ms:
            self._samples.popleft()
