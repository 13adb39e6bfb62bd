"""Fuzzer of listeners that authenticate: many attempts to get in, beside an honest client.

The broker must close every connection of an attempt: at once if the attempt ends by itself, else after
``odradek.authentication.timeout.ms``. Nobody may be let in. At intervals the honest client produces and
fetches, another one connects anew, and the broker's memory is checked.

An attempt depends on the seed and its number only (and on random numbers of the broker), so that
``python -m tests.fuzz.run --mode MODE --seed SEED --first NUMBER --frames 1`` repeats it.
"""

from __future__ import annotations

import random
import ssl
import time
from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import psutil
from tests.fuzz import sasl_attempts, tls_attempts
from tests.fuzz.canary import Canary
from tests.fuzz.conversation import Conversation, Ended, NotEnded
from tests.fuzz.fuzzer import RSS_BYTES_MAX, FuzzCounts, Fuzzer, FuzzFailure
from tests.fuzz.sasl_attempts import LetIn
from tests.support.raw_connection import ConnectionEnded
from tests.support.secured_broker import SecuredBroker, add_scram_users, password_of
from tests.support.secured_connection import SecuredConnection, client_context

AUTHENTICATION_TIMEOUT_MS: Final = 1_000
CLOSE_S_MAX: Final = 10.0
"""Time until a connection that was left half done must have been closed; the machine may be busy."""
STALLED_MAX: Final = 200
CHECK_EVERY: Final = 100
SETTINGS: Final = {
    "odradek.authentication.timeout.ms": str(AUTHENTICATION_TIMEOUT_MS),
    "connection.failed.authentication.delay.ms": "0",
}
"""Settings of the broker under test: failures are answered at once, so that there are more of them."""


class Mode(NamedTuple):
    """Kind of attempts; ``listeners`` take turns."""

    play: Callable[[Conversation, random.Random], bool]
    listeners: tuple[str, ...]
    is_over_tls: bool


MODES: Final[dict[str, Mode]] = {
    "sasl": Mode(sasl_attempts.play, ("SASL_PLAINTEXT",), False),
    "sasl-tls": Mode(sasl_attempts.play, ("SASL_SSL",), True),
    "tls": Mode(tls_attempts.play, ("SSL", "SASL_SSL"), False),
}
AUTHENTICATED: Final = "authenticated"
"""Mode of ``Fuzzer`` with requests of a client that has authenticated."""


def secured_broker(directory: Path) -> SecuredBroker:
    """Start a broker to fuzz."""
    broker = SecuredBroker(directory, dict(SETTINGS)).start()
    add_scram_users(broker)
    return broker


def connection(broker: SecuredBroker, listener: str = "SASL_SSL") -> SecuredConnection:
    """Return a connection of an honest client."""
    context = client_context(broker.files["authority"]) if listener == "SASL_SSL" else None
    return SecuredConnection(broker.bootstrap(listener), context, "alice", password_of("alice"))


def authenticated_fuzzer(broker: SecuredBroker, seed: int, failures: Path) -> Fuzzer:
    """Return a fuzzer whose requests are those of an authenticated client."""
    listener = "SASL_PLAINTEXT"
    return Fuzzer(
        broker.bootstrap(listener),
        broker.broker,
        seed,
        failures,
        connect=partial(connection, broker, listener),
        ports=broker.ports,
    )


class AttemptFuzzer:
    """Fuzzes one broker with one mode and seed."""

    def __init__(self, broker: SecuredBroker, mode: str, seed: int) -> None:
        self._broker = broker
        self._mode_name, self._mode = mode, MODES[mode]
        self._seed = seed
        self._context = client_context(broker.files["authority"])
        self._ports = [int(broker.bootstrap(name).rpartition(":")[2]) for name in self._mode.listeners]
        self._process = psutil.Process(broker.broker.pid)
        self._stalled: deque[tuple[float, int, Conversation]] = deque()
        self._canary = Canary(partial(connection, broker), seed)
        self.attempts = 0
        self.counts = FuzzCounts(apis=Counter())

    def run(self, frames: int, first: int = 0) -> FuzzCounts:
        """Make attempts until they have sent ``frames`` frames or records."""
        number = first
        try:
            self._canary.create_topic()
            while self.counts.frames < frames:
                self._attempt(number)
                number += 1
                if (number - first) % CHECK_EVERY == 0:
                    self._check_broker(number)
            while self._stalled:
                self._await_end_of_oldest()
            self._check_broker(number)
        finally:
            self._canary.close()
            for _, _, conversation in self._stalled:
                conversation.close()
        return self.counts

    def _attempt(self, number: int) -> None:
        rng = random.Random(f"{self._seed} {number}")
        self.attempts += 1
        try:
            conversation = self._conversation(number)
        except (OSError, ssl.SSLError) as error:
            self._fail(number, f"no connection: {error!r}")
        is_stalled = False
        try:
            is_stalled = self._mode.play(conversation, rng)
        except Ended:
            pass
        except (LetIn, NotEnded, AssertionError) as problem:
            conversation.close()
            self._fail(number, str(problem))
        self.counts.frames += conversation.frames
        self.counts.responses += conversation.answers
        if is_stalled:
            self._stalled.append((time.monotonic(), number, conversation))
            if len(self._stalled) > STALLED_MAX:
                self._await_end_of_oldest()
        else:
            self.counts.closed += 1
            conversation.close()

    def _conversation(self, number: int) -> Conversation:
        context = self._context if self._mode.is_over_tls else None
        return Conversation(self._ports[number % len(self._ports)], context)

    def _await_end_of_oldest(self) -> None:
        """Wait until the broker has closed the connection that was left half done first."""
        since_s, number, conversation = self._stalled.popleft()
        while not conversation.has_ended():
            if time.monotonic() - since_s > AUTHENTICATION_TIMEOUT_MS / 1000 + CLOSE_S_MAX:
                self._fail(number, "a connection that was left half done is still open")
            time.sleep(0.02)
        self.counts.closed += 1
        conversation.close()

    def _check_broker(self, number: int) -> None:
        try:
            self._canary.check()
            connection(self._broker).close()
        except (ConnectionEnded, OSError, AssertionError) as error:
            self._fail(number, f"the honest client failed: {error!r}")
        rss = self._process.memory_info().rss
        self.counts.rss_bytes_peak = max(self.counts.rss_bytes_peak, rss)
        if rss > RSS_BYTES_MAX:
            self._fail(number, f"broker uses {rss >> 20} MB")
        if traceback := self._broker.broker.traceback():
            self._fail(number, f"broker printed a traceback:\n{traceback}\n")

    def _fail(self, number: int, reason: str) -> None:
        raise FuzzFailure(
            f"{reason}; mode {self._mode_name}, seed {self._seed}, attempt {number}; repeat it by: python -m "
            f"tests.fuzz.run --mode {self._mode_name} --seed {self._seed} --first {number} --frames 1"
        )
