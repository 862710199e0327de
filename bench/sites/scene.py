"""Processes of a measurement, on hosts of their own or on this one; all of them end with their scene."""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from bench.rooms.processes import scheduled

PORT = 7571
# Of what a broker listens at besides, from there on.
APART = 100
# Before brokers, so that what is measured is not the load.
URGENT = 60
NORTH, SOUTH, ROUTER = 0, 1, 2


def wait(holds, seconds, told=lambda: ""):
    until = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > until:
            sys.exit(f"it has not come within {seconds} s: {told()}")
        time.sleep(0.02)


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def processor_seconds(child):
    with open(f"/proc/{child.pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Scene:
    """Without hosts of their own, processes listen on this one, at ports one after the other."""

    def __init__(self, hosts=None):
        self.hosts = hosts
        self.folder = tempfile.mkdtemp(prefix="verge-bench-")
        self.children = []

    def path(self, name):
        return os.path.join(self.folder, name)

    def inside(self, place):
        return self.hosts.inside(place) if self.hosts else []

    def address(self, place, number=0):
        """Where something is reached at a place: clients by the numbers from 0 on, others by those from APART on."""
        if self.hosts:
            return f"{self.hosts.address(place)}:{PORT + number}"
        return f"127.0.0.1:{PORT + 10 * place + number}"

    def start(self, place, words, log, urgent=0, **more):
        words = [*self.inside(place), *map(str, words)]
        with open(self.path(log), "ab") as file:
            child = subprocess.Popen(words, stderr=file, preexec_fn=scheduled(urgent), start_new_session=True,
                                     **({"stdin": subprocess.DEVNULL, "stdout": file} | more))
        self.children.append(child)
        return child

    def kill(self, child):
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        self.children.remove(child)

    def run(self, place, *words):
        return subprocess.run([*self.inside(place), *map(str, words)], capture_output=True, text=True)

    def listens(self, place, number=0):
        host, port = self.address(place, number).rsplit(":", 1)
        words = ["python3", "-c", f"import socket; socket.create_connection(({host!r}, {port}), 1).close()"]
        return self.run(place, *words).returncode == 0

    def log(self, name):
        try:
            with open(self.path(name), errors="replace") as file:
                return file.read()
        except OSError:
            return ""

    def write(self, name, text):
        with open(self.path(name), "w") as file:
            file.write(text)
        return self.path(name)

    def receive(self, system, topics, period_ms, place=SOUTH, missed=None, name="t"):
        """A subscriber at a site, once it has subscribed."""
        words = ["receive", *ends(system, place, topics, period_ms, name), *(["--missed", missed] if missed else [])]
        receiver = Receiver(self.load(system, place, words))
        wait(lambda: receiver.listen(0.05) or receiver.has_subscribed, 30, lambda: self.log("load.log"))
        return receiver

    def publish(self, system, topics, period_ms, retain=20, name="t"):
        """A publisher at the northern site."""
        words = ["publish", *ends(system, NORTH, topics, period_ms, name), "--retain", retain]
        return self.load(system, NORTH, words)

    def load(self, system, place, words):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        return self.start(place, [system.load, *words], "load.log", URGENT, env=os.environ | system.environment, **pipes)

    def end(self):
        for child in list(self.children):
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        if self.hosts:
            self.hosts.end()
        shutil.rmtree(self.folder, ignore_errors=True)


def ends(system, place, topics, period_ms, name):
    return ["--protocol", system.protocol, "--broker", system.clients(place), "--topics", topics, "--period-ms", period_ms, "--name", name]


class Receiver:
    """What a subscriber has said."""

    def __init__(self, child):
        self.child, self.gaps, self.report, self.has_subscribed, self.rest = child, [], None, False, ""
        os.set_blocking(child.stdout.fileno(), False)

    def listen(self, seconds=0.0):
        until = time.monotonic() + seconds
        while True:
            left = max(until - time.monotonic(), 0)
            if select.select([self.child.stdout], [], [], left)[0]:
                told = os.read(self.child.stdout.fileno(), 1 << 16).decode()
                if not told:
                    return
                *lines, self.rest = (self.rest + told).split("\n")
                for line in map(json.loads, lines):
                    if "gap_ms" in line:
                        self.gaps.append(line)
                    elif "subscribed" in line:
                        self.has_subscribed = True
                    else:
                        self.report = line
            elif left == 0:
                return

    def ended_gaps(self, since):
        self.listen()
        return [gap for gap in self.gaps if gap["ended_ns"] >= since]

    def longest_gap(self, since):
        """Of those that have ended since, in milliseconds."""
        return max((gap["gap_ms"] for gap in self.ended_gaps(since)), default=0.0)

    def end(self):
        self.child.stdin.close()
        wait(lambda: self.listen(0.1) or self.report is not None, 20)
        return self.report


def stop(publisher):
    said, _ = publisher.communicate(timeout=30)
    return json.loads(said)


def account(published, report):
    """What is missing since the way of each topic was open, and what came twice."""
    lacks = [count - topic["first"] - topic["came"] for count, topic in zip(published["published"], report["topics"])]
    troubles = published["troubles"] + report["troubles"]
    return {"missing": sum(lacks), "twice": report["twice"], "out_of_order": report["out_of_order"],
            "missed_out_of_order": report["missed_out_of_order"], "published": sum(published["published"]),
            "came": sum(topic["came"] for topic in report["topics"]), **({"troubles": troubles} if troubles else {})}
