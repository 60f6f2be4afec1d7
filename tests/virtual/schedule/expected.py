#!/usr/bin/env python3
"""Writes the ticks of cron expressions over a year, found by looking at each of its minutes.

It shares nothing with the crate: local times are those of the standard library's `zoneinfo`, and
an expression is matched by sets of numbers. Run without arguments beside `expected.txt`.

A line is: expression | zone | the first tick | distance x count, ... in minutes of UTC. The times
of a line that has fixed times are moved out of gaps and not repeated in folds; those of intervals
are.
"""

from datetime import datetime, timedelta, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

YEAR = 2025
ZONES = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe"]
# The expression, and whether it names fixed times.
EXPRESSIONS = [
    ("0 3 * * *", True),
    ("0 2 * * *", True),
    ("30 2 * * *", True),
    ("15 1 * * *", True),
    ("45 1 * * *", True),
    ("0 2,14 * * *", True),
    ("0,15,30,45 1-3 * * *", True),
    ("15 2 * * 0", True),
    ("0 0 1 1,4,10 *", True),
    ("30 2 9,30 * 1", True),
    ("*/30 * * * *", False),
    ("* * * * *", False),
    ("5 * * * *", False),
    ("*/20 2 * * *", False),
    ("0-59/45 1 * * *", False),
    ("10 */2 * * *", False),
    ("*/10 1-2 1-9 3,4,10,11 7", False),
    ("0 * 31 12 *", False),
]


def numbers(field, low, high):
    found = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        first, _, last = span.partition("-")
        if span == "*":
            first, last = low, high
        found.update(range(int(first), int(last or first) + 1, int(step or 1)))
    return found


def matcher(expression):
    minute, hour, day, month, weekday = expression.split()
    minutes, hours = numbers(minute, 0, 59), numbers(hour, 0, 23)
    days, months = numbers(day, 1, 31), numbers(month, 1, 12)
    weekdays = {n % 7 for n in numbers(weekday, 0, 7)}

    def matches(local):
        in_days, in_weekdays = local.day in days, local.isoweekday() % 7 in weekdays
        both = day == "*" or weekday == "*"
        return (
            local.minute in minutes
            and local.hour in hours
            and local.month in months
            and (in_days and in_weekdays if both else in_days or in_weekdays)
        )

    return matches


def year_of(zone):
    """Each minute: its number, its local time, whether that is a repetition, what was left out."""
    start = int(datetime(YEAR, 1, 1, tzinfo=timezone.utc).timestamp()) // 60
    end = int(datetime(YEAR + 1, 1, 1, tzinfo=timezone.utc).timestamp()) // 60
    at = lambda n: datetime.fromtimestamp(n * 60, ZoneInfo(zone))
    last = at(start - 1).replace(tzinfo=None)
    for number in range(start, end):
        aware = at(number)
        local = aware.replace(tzinfo=None, fold=0)
        skipped = []
        while last + timedelta(minutes=1) < local:
            last += timedelta(minutes=1)
            skipped.append(last)
        last = local
        yield number, local, aware.fold == 1, skipped


def ticks(expression, fixed, minutes):
    matches = matcher(expression)
    for number, local, repeated, skipped in minutes:
        if fixed:
            if matches(local) and not repeated or any(map(matches, skipped)):
                yield number
        elif matches(local):
            yield number


def runs(found):
    distances = [later - earlier for earlier, later in zip(found, found[1:])]
    pairs = []
    for distance in distances:
        if pairs and pairs[-1][0] == distance:
            pairs[-1][1] += 1
        else:
            pairs.append([distance, 1])
    return ",".join(f"{distance}x{count}" for distance, count in pairs)


def main():
    lines = [f"# Written by {Path(__file__).name}: the year {YEAR} in UTC."]
    for zone in ZONES:
        minutes = list(year_of(zone))
        for expression, fixed in EXPRESSIONS:
            found = list(ticks(expression, fixed, minutes))
            lines.append(f"{expression} | {zone} | {found[0]} | {runs(found)}")
    Path(__file__).with_name("expected.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
