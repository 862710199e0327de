#!/usr/bin/env python3
"""What streams of CPEP, figure 2.6, would take if nothing but their operators took time: processors that always run the most urgent that is
ready and change between operators at once. Within a level, what was made of the oldest reading goes first (all results of a level have the
same deadline here, so that is the earliest deadline), and nothing is interrupted. Nothing is measured; it is what a runner sets
beside what it measured, since no implementation of that schedule can be faster."""

import collections
import heapq
import itertools
import math
import random
import statistics
import sys


class Level:
    """Of one stream: how many suppliers it has, their period, what an operator takes for each reading (0: none), and what those take
    that follow when a reading of each supplier is there. Microseconds."""

    def __init__(self, streams, suppliers, period_us, each_us, joined_us):
        self.streams, self.suppliers, self.period_us, self.each_us, self.joined_us = streams, suppliers, period_us, each_us, joined_us


class Schedule:
    """Levels, the most urgent first, on so many processors."""

    def __init__(self, levels, processors, apart_us, seed):
        self.levels, self.processors, self.now = levels, processors, 0.0
        # Each job: its level, what is left of it, what follows. They wait behind their place in the order of their level: who was
        # interrupted goes on first, then comes whose reading is the oldest, then who came first.
        self.waiting = [[] for _ in levels]
        self.entered = itertools.count()
        self.running = []
        # By level and stream: when the readings were due that its join has.
        self.inputs = collections.defaultdict(dict)
        self.latencies = [[] for _ in levels]
        chance = random.Random(seed)
        self.agenda = []
        for number, level in enumerate(levels):
            for stream in range(level.streams):
                begin = chance.uniform(0, level.period_us)
                self.agenda += [(begin + chance.uniform(0, apart_us), number, stream, supplier) for supplier in range(level.suppliers)]

    def run(self, until_us):
        """What results take from the latest reading of theirs, by level."""
        due = sorted((at, *what) for first, *what in self.agenda
                     for at in self.times(first, self.levels[what[0]].period_us, until_us))
        for at, *what in due:
            self.work_until(at)
            self.read(at, *what)
        self.work_until(math.inf)
        return self.latencies

    @staticmethod
    def times(first, period, until):
        count = max(0, int((until - first) // period) + 1)
        return (first + period * number for number in range(count))

    def read(self, due, number, stream, supplier):
        each = self.levels[number].each_us
        follow = lambda: self.join(due, number, stream, supplier)
        if each:
            self.add(number, due, each, follow)
        else:
            follow()

    def join(self, due, number, stream, supplier):
        level, there = self.levels[number], self.inputs[number, stream]
        there[supplier] = due
        if len(there) == level.suppliers:
            earliest, latest = min(there.values()), max(there.values())
            there.clear()
            self.chain(number, earliest, level.joined_us, latest)

    def chain(self, number, due, costs, latest):
        """What follows a join; its result is as old as the latest reading."""
        if costs:
            self.add(number, due, costs[0], lambda: self.chain(number, latest, costs[1:], latest))
        else:
            self.latencies[number].append(self.now - latest)

    def add(self, number, due, cost, follow):
        self.wait(due, [number, cost, follow])
        self.assign()

    def wait(self, place, job):
        heapq.heappush(self.waiting[job[0]], (place, next(self.entered), job))

    def assign(self):
        """The most urgent run; who was interrupted goes on first of its level."""
        while (number := next((number for number, jobs in enumerate(self.waiting) if jobs), None)) is not None:
            if len(self.running) == self.processors:
                least = max(self.running, key=lambda job: job[0])
                if least[0] <= number:
                    return
                self.running.remove(least)
                self.wait(-math.inf, least)
            self.running.append(heapq.heappop(self.waiting[number])[-1])

    def work_until(self, at):
        while self.running:
            first = min(self.running, key=lambda job: job[1])
            step = min(first[1], at - self.now)
            for job in self.running:
                job[1] -= step
            self.now += step
            if first[1] > 0:
                break
            self.running.remove(first)
            first[2]()
            self.assign()
        if at != math.inf:
            self.now = at


def quantile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))]


def p99_ms(levels, processors, apart_us=1_000.0, seconds=3, seeds=30):
    """By level: the median over that many ways in which the streams may begin."""
    found = []
    for seed in range(seeds):
        found.append([quantile(row, 0.99) / 1e3 for row in Schedule(levels, processors, apart_us, seed).run(seconds * 1e6)])
    return [statistics.median(column) for column in zip(*found)]


def check():
    """Schedules that can be followed by hand."""
    alone = Schedule([Level(1, 1, 1_000, 100, (50,))], 1, 0, 1).run(10_500)
    assert {round(value, 6) for value in alone[0]} == {150.0}, alone
    # Two readings at once on one processor: the second waits for the first, on two it does not.
    for processors, expected in ((1, 250.0), (2, 150.0)):
        pair = Schedule([Level(1, 2, 1_000, 100, (50,))], processors, 0, 1).run(10_500)
        assert {round(value, 6) for value in pair[0]} == {expected}, (processors, pair)
    # What follows an older reading goes before a newer one, so one of two streams is never held up.
    for seed in range(50):
        two = Schedule([Level(2, 1, 1_000, 100, (50,))], 1, 0, seed).run(10_500)
        assert 150.0 in {round(value, 6) for value in two[0]}, (seed, two)
    # What is urgent waits for nobody, and what is not loses just the time that this takes.
    both = Schedule([Level(1, 1, 500, 100, ()), Level(1, 1, 10_000, 1_000, ())], 1, 0, 1).run(95_000)
    assert {round(value, 6) for value in both[0]} == {100.0}, both
    assert all(1_200 <= round(value, 6) <= 1_300 for value in both[1]), both


if __name__ == "__main__":
    check()
    print("the schedules that can be followed by hand are right", file=sys.stderr)
