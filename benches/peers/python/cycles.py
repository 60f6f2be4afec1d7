"""Acquires and releases locks of pottery, and prints a line of JSON for each case.

cycles.py CONTESTANT SECONDS PORT…: the ports are those of redis-server processes on 127.0.0.1. The contestant
`pottery` is Redlock, with a thread for each task; `pottery-asyncio` is AIORedlock.
"""

import asyncio
import json
import math
import os
import sys
import threading
import time

from pottery import AIORedlock, Redlock
from redis import Redis
from redis.asyncio import Redis as AsyncRedis

WARM_UP_S = 0.2


class Outcome:
    """What the tasks did together."""

    def __init__(self):
        self.cycles, self.failures, self.first_failure, self.acquires = 0, 0, None, []

    def failed(self, error):
        self.failures += 1
        self.first_failure = self.first_failure or error

    def add(self, other):
        self.cycles += other.cycles
        self.acquires += other.acquires
        self.add_failures(other)

    def add_failures(self, other):
        self.failures += other.failures
        self.first_failure = self.first_failure or other.first_failure


def repeat(masters, name, end):
    """Repeats cycles of Redlock; one attempt each, as a retry would hide a failure as a slow acquire."""
    outcome = Outcome()
    lock = Redlock(key=name, masters=masters)
    while time.monotonic() < end:
        try:
            begun = time.perf_counter()
            if not lock.acquire(blocking=False):
                outcome.failed("not acquired")
                continue
            outcome.acquires.append(time.perf_counter() - begun)
            lock.release()
            outcome.cycles += 1
        except Exception as error:  # Whatever it is, it is counted. Its text names all settings of the clients.
            outcome.failed(type(error).__name__)
    return outcome


async def repeat_async(masters, name, end):
    """Does the same with AIORedlock."""
    outcome = Outcome()
    lock = AIORedlock(key=name, masters=masters)
    while time.monotonic() < end:
        try:
            begun = time.perf_counter()
            if not await lock.acquire(blocking=False):
                outcome.failed("not acquired")
                continue
            outcome.acquires.append(time.perf_counter() - begun)
            await lock.release()
            outcome.cycles += 1
        except Exception as error:  # Whatever it is, it is counted. Its text names all settings of the clients.
            outcome.failed(type(error).__name__)
    return outcome


def names(tasks):
    return [f"peers:{os.getpid()}:{tasks}:{task}" for task in range(tasks)]


async def in_threads(masters, tasks, end):
    outcomes = []
    threads = [
        threading.Thread(target=lambda name=name: outcomes.append(repeat(masters, name, end))) for name in names(tasks)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


async def in_coroutines(masters, tasks, end):
    return await asyncio.gather(*(repeat_async(masters, name, end) for name in names(tasks)))


async def run(kind, masters, tasks, seconds):
    """Runs this number of tasks until the time is over; cycles in flight are completed. Returns the elapsed time too."""
    started = time.monotonic()
    total = Outcome()
    for outcome in await kind(masters, tasks, started + seconds):
        total.add(outcome)
    return total, time.monotonic() - started


def percentile(ordered, percent):
    """The nearest rank, in microseconds."""
    return ordered[math.ceil(len(ordered) * percent / 100) - 1] * 1e6 if ordered else None


async def measure(contestant, kind, masters, tasks, seconds):
    warm_up, _ = await run(kind, masters, tasks, WARM_UP_S)
    outcome, elapsed = await run(kind, masters, tasks, seconds)
    outcome.add_failures(warm_up)
    outcome.acquires.sort()
    line = {
        "contestant": contestant,
        "tasks": tasks,
        "cycles": outcome.cycles,
        "seconds": elapsed,
        "failures": outcome.failures,
        "first_failure": outcome.first_failure,
        "p50_us": percentile(outcome.acquires, 50),
        "p99_us": percentile(outcome.acquires, 99),
    }
    print(json.dumps(line), flush=True)


async def main():
    contestant, seconds, *ports = sys.argv[1:]
    client, kind = {"pottery": (Redis, in_threads), "pottery-asyncio": (AsyncRedis, in_coroutines)}[contestant]
    masters = {client(host="127.0.0.1", port=int(port)) for port in ports}
    for tasks in (1, 64):
        await measure(contestant, kind, masters, tasks, float(seconds))
    if kind is in_coroutines:
        await asyncio.gather(*(master.aclose() for master in masters))


if __name__ == "__main__":
    asyncio.run(main())
