"""Shared by all tests: Hypothesis profiles, processes that can be interrupted, a smaller heap to collect."""

import gc
import os
import signal

from hypothesis import HealthCheck, Phase, settings

settings.register_profile("ci", max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("long", max_examples=2000, deadline=None, suppress_health_check=list(HealthCheck))
settings.register_profile(
    "mutants",  # the same examples each time, and the first failure is enough
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell lets its background jobs ignore Ctrl-C, and whatever tests start would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Spare the garbage collector ten thousand collected tests, which live as long as the process."""
    gc.collect()
    gc.freeze()
