// Acquires and releases locks of node-redlock, and prints a line of JSON for each case.
//
// node cycles.js CONTESTANT SECONDS PORT…: the ports are those of redis-server processes on 127.0.0.1.

import { Redis } from "ioredis";
import Redlock from "redlock";

const TTL_MS = 10_000;
const WARM_UP_S = 0.2;

/** Returns the nearest rank, in microseconds, or null if there is none. */
function percentile(sortedMs, percent) {
  const rank = Math.ceil((sortedMs.length * percent) / 100);
  return rank === 0 ? null : sortedMs[rank - 1] * 1000;
}

async function repeat(redlock, name, end, outcome) {
  while (performance.now() < end) {
    try {
      const begun = performance.now();
      const lock = await redlock.acquire([name], TTL_MS);
      outcome.acquires.push(performance.now() - begun);
      await lock.release();
      outcome.cycles += 1;
    } catch (error) {
      outcome.failures += 1;
      outcome.first_failure ??= String(error);
    }
  }
}

/** Runs this number of tasks until the time is over. Cycles in flight are completed. */
async function run(redlock, tasks, seconds) {
  const outcome = { cycles: 0, failures: 0, first_failure: null, acquires: [] };
  const started = performance.now();
  const names = Array.from({ length: tasks }, (_, task) => `peers:${process.pid}:${tasks}:${task}`);
  await Promise.all(names.map((name) => repeat(redlock, name, started + seconds * 1000, outcome)));
  outcome.seconds = (performance.now() - started) / 1000;
  return outcome;
}

async function measure(redlock, contestant, tasks, seconds) {
  const warmUp = await run(redlock, tasks, WARM_UP_S);
  const { acquires, ...outcome } = await run(redlock, tasks, seconds);
  outcome.failures += warmUp.failures;
  outcome.first_failure ??= warmUp.first_failure;
  acquires.sort((a, b) => a - b);
  const times = { p50_us: percentile(acquires, 50), p99_us: percentile(acquires, 99) };
  console.log(JSON.stringify({ contestant, tasks, ...outcome, ...times }));
}

const [contestant, seconds, ...ports] = process.argv.slice(2);
const clients = ports.map((port) => new Redis(Number(port), "127.0.0.1"));
// One attempt: a retry would hide a failure as a slow acquire.
const redlock = new Redlock(clients, { retryCount: 0 });
for (const tasks of [1, 64]) {
  await measure(redlock, contestant, tasks, Number(seconds));
}
await redlock.quit();
