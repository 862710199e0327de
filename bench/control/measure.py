"""The workload of FRAME, table 3.2, on one `verge broker`, calm, and while clients ask for everything else at once: filters are subscribed, topics
registered and ended, clients of MQTT come and go, and SIGHUP changes graphs of operators. Then, on a broker of its own, how long it takes to
register as many topics and to subscribe each by its name. ROUNDS is how often everything is measured, TOPICS how many topics run, `--quick` once
and shortly. PRIORITY=0 runs all processes with ordinary scheduling. VERGE and PEERS are the programs."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from bench.rooms.code import BROKER
from bench.rooms.noise import undisturbed
from bench.rooms.options import QUICK, program
from bench.rooms.processes import free_ports, scheduled, wait_until_listening

ABOUT = "messages while clients subscribe, register, come and go, and graphs change"
PROGRAMS = ["verge", "verge-bench-awake", "verge-bench-peers"]
CODE = (*BROKER, "crates/mqtt", "crates/processing")
VARIABLES = ("ROUNDS", "TOPICS", "PRIORITY")
SWITCHES, SEVERAL = (), {}
OTHERS, UNTHROTTLED = False, True

VERGE = program("VERGE", "verge")
PEERS = program("PEERS", "verge-bench-peers")
ROUNDS = 1 if QUICK else int(os.environ.get("ROUNDS", "3"))
TOPICS = int(os.environ.get("TOPICS", "13525"))
PRIORITY = int(os.environ.get("PRIORITY", "50"))
WARM_UP, SECONDS = (1, 4) if QUICK else (2, 15)
FILTERS, REGISTERED, CLIENTS = 10_000, 5_000, 1_000
PATIENCE_SECONDS = 120

GRAPH = """
[[source]]
topic = "c0/+"
type = "bytes"
[[operator]]
name = "{name}"
kind = "concat"
inputs = ["c0/+"]
cost = "20us"
output = "copied/+"
"""


class Broker:
    """On free ports, with room for the filters, and for clients of MQTT."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="verge-bench-")
        self.port, self.mqtt, pair = free_ports(3)
        self.file = os.path.join(self.folder, "verge.toml")
        self.base = (f'[limits]\nfilters_per_session = {max(2 * FILTERS, 2 * TOPICS)}\nstreams = 65536\n'
                     f'[brokers.a]\nclients = "127.0.0.1:{self.port}"\nmqtt = "127.0.0.1:{self.mqtt}"\npair = "127.0.0.1:{pair}"\n'
                     f'start_as = "primary"\n[realtime]\npriority = {PRIORITY}\n')
        self.configure("")
        self.log = open(os.path.join(self.folder, "log"), "wb")
        self.child = subprocess.Popen([VERGE, "--config", self.file, "broker", "a"], stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
                                      preexec_fn=scheduled(PRIORITY))
        wait_until_listening(self.port, self.child, "the broker", self.told, self.end)

    def configure(self, graph):
        with open(self.file, "w") as file:
            file.write(self.base + graph)

    def hang_up(self, number):
        """Other graphs, every second time none."""
        self.configure(GRAPH.format(name=f"copy{number}") if number % 2 == 0 else "")
        self.child.send_signal(signal.SIGHUP)

    def told(self):
        with open(os.path.join(self.folder, "log"), errors="replace") as file:
            return file.read()

    def end(self):
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGKILL)
            self.child.wait()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def start(broker, *words):
    return subprocess.Popen([str(word) for word in (PEERS, *words)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, preexec_fn=scheduled(PRIORITY and PRIORITY + (5 if words[0] == "frame" else -5)))


def finish(child, broker):
    try:
        out, error = child.communicate(timeout=PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        return {"failed": f"not done after {PATIENCE_SECONDS} s"}
    return {"failed": error.strip()[-500:], "log": broker.told()[-500:]} if child.returncode else json.loads(out)


def loaded(busy):
    """The workload, and beside it the commands from the time at which it counts."""
    broker = Broker()
    try:
        load = start(broker, "frame", "--protocol", "verge", "--broker", f"127.0.0.1:{broker.port}", "--pid", broker.child.pid, "--topics", TOPICS,
                     "--warm-up", WARM_UP, "--seconds", SECONDS, "--awake")
        commands, changes = None, 0
        if busy:
            time.sleep(WARM_UP + 1)
            commands = start(broker, "commands", "--broker", f"127.0.0.1:{broker.port}", "--mqtt", f"127.0.0.1:{broker.mqtt}", "--filters", FILTERS,
                             "--topics", REGISTERED, "--clients-per-second", CLIENTS, "--seconds", SECONDS)
            while load.poll() is None and commands.poll() is None:
                broker.hang_up(changes)
                changes += 1
                time.sleep(1)
        report = finish(load, broker)
        if commands:
            report["commands"] = finish(commands, broker)
            report["graphs_changed"] = broker.told().count("graphs go on")
        return report
    finally:
        broker.end()


def set_up():
    broker = Broker()
    try:
        return finish(start(broker, "set-up", "--broker", f"127.0.0.1:{broker.port}", "--topics", TOPICS), broker)
    finally:
        broker.end()


CASES = {"calm": lambda: loaded(False), "busy": lambda: loaded(True), "set-up": set_up}


def measure(_chosen):
    runs = []
    for number in range(ROUNDS):
        for case, act in CASES.items():
            report = undisturbed(act)
            runs.append({"round": number, "case": case, "report": report})
            print(f"round {number + 1} of {ROUNDS}: {case} {report.get('failed', '')}", file=sys.stderr, flush=True)
    settings = {"rounds": ROUNDS, "topics": TOPICS, "filters": FILTERS, "registered": REGISTERED, "clients_per_s": CLIENTS, "priority": PRIORITY}
    return {"settings": settings, "figures": {"runs": runs}}
