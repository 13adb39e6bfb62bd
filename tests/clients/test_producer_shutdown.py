"""Programs that end, are interrupted, or lose their broker, with a real broker process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Any

from tests.support.broker import Broker


def program(*lines: str) -> subprocess.CompletedProcess[str]:
    """A program of its own, as the last lines of a process are what is looked at."""
    return subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, timeout=60, check=False
    )


def test_a_program_that_forgets_to_close_has_its_records_delivered_and_is_told(
    bootstrap: str, topic: str
) -> None:
    ended = program(
        "from odradek import Producer",
        f"producer = Producer(bootstrap_servers={bootstrap!r}, linger_ms=60_000)",
        f"producer.send({topic!r}, b'v', on_delivery=lambda metadata, error: print('told', error))",
    )
    assert ended.returncode == 0
    assert ended.stdout == "told None\n"
    assert "producer_not_closed" in ended.stderr


def test_a_program_that_has_nothing_left_to_deliver_ends_without_a_word(bootstrap: str, topic: str) -> None:
    ended = program(
        "from odradek import Producer",
        f"producer = Producer(bootstrap_servers={bootstrap!r})",
        f"producer.send({topic!r}, b'v').result(30)",
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_every_wait_can_be_interrupted_and_a_hasty_close_follows_a_patient_one(start_broker: Any) -> None:
    broker: Broker = start_broker()
    ended = program(
        "import os, signal, threading, time",
        "from odradek import Producer",
        f"producer = Producer(bootstrap_servers={broker.bootstrap!r}, linger_ms=0)",
        "producer.send('letters', b'early').result(30)",
        f"os.kill({broker.pid}, signal.SIGSTOP)",
        "late = producer.send('letters', b'late', on_delivery=lambda _, error: print(type(error).__name__))",
        "def interrupted(call):",
        "    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()",
        "    try:",
        "        call()",
        "    except KeyboardInterrupt:",
        "        print('interrupted')",
        "interrupted(late.result)",
        "interrupted(producer.flush)",
        "interrupted(lambda: producer.send('elsewhere', b'v'))",
        "interrupted(producer.close)",
        "began = time.monotonic()",
        "producer.close(0)",
        "print(time.monotonic() - began < 5, [one.name for one in threading.enumerate()])",
        f"os.kill({broker.pid}, signal.SIGCONT)",
    )
    os.kill(broker.pid, signal.SIGCONT)
    assert ended.stdout.split("\n") == [*["interrupted"] * 4, "ClientClosed", "True ['MainThread']", ""]
    assert ended.returncode == 0


def test_an_event_loop_that_ends_before_its_producer_is_closed_lets_no_record_wait_for_ever(
    bootstrap: str, topic: str
) -> None:
    ended = program(
        "import asyncio",
        "from odradek.aio import Producer",
        "async def send():",
        f"    return await producer.send({topic!r}, b'v', on_delivery=lambda _, error: print(repr(error)))",
        f"producer = Producer(bootstrap_servers={bootstrap!r}, linger_ms=60_000)",
        "print(asyncio.run(send()).done())",
        "try:",
        "    asyncio.run(send())",
        "except Exception as refused:",
        "    print(repr(refused))",
    )
    reason = "ClientClosed('the event loop of this producer has ended, and it was never closed')"
    assert ended.stdout.split("\n") == [reason, "True", reason, ""]
    assert "producer_not_closed" in ended.stderr
