#!/usr/bin/env python3
"""The workload of FRAME, table 3.2, on one `verge broker`, calm, and while clients ask for everything else at once: filters are subscribed, topics
registered and ended, clients of MQTT come and go, and SIGHUP changes graphs of operators. Then, on a broker of its own, how long it takes to
register as many topics and to subscribe each by its name. Writes bench/results/control.md and control.json. ROUNDS is how often
everything is measured, TOPICS how many topics run, `--quick` once and shortly; `--page` writes the page anew from control.json. PRIORITY=0
runs all processes with ordinary scheduling. VERGE and PEERS are the programs."""

import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from bench.rooms.common import (QUICK, command, commit, disturbances, free_ports, machine, options, origin, program, read_results, realtime_limit,
                    scheduled, share_stolen, spread, stolen, throttle, to_repository, undisturbed, write_results)

VERGE = program("VERGE", "verge")
PEERS = program("PEERS", "verge-bench-peers")
OPTIONS = options(__doc__, "quick", "page")
ROUNDS = 1 if QUICK else int(os.environ.get("ROUNDS", "3"))
TOPICS = int(os.environ.get("TOPICS", "13525"))
PRIORITY = int(os.environ.get("PRIORITY", "50"))
WARM_UP, SECONDS = (1, 4) if QUICK else (2, 15)
FILTERS, REGISTERED, CLIENTS = 10_000, 5_000, 1_000
START_SECONDS, PATIENCE_SECONDS = 15, 120
# Of what the page says whether it was met.
P99_TIMES_MOST, SET_UP_SECONDS_MOST = 2, 1.0

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
        until = time.monotonic() + START_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                if self.child.poll() is not None or time.monotonic() > until:
                    told = self.told()
                    self.end()
                    sys.exit(f"the broker does not listen: {told}")
                time.sleep(0.02)

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


def measured():
    runs, by, before = [], commit(), stolen()
    for number in range(ROUNDS):
        for case, measure in CASES.items():
            report = undisturbed(measure)
            runs.append({"round": number, "case": case, "report": report})
            print(f"round {number + 1} of {ROUNDS}: {case} {report.get('failed', '')}", file=sys.stderr, flush=True)
    return {"command": command("ROUNDS", "TOPICS", "PRIORITY"), "commit": by, "machine": machine(), "stolen": share_stolen(before, stolen()),
            "realtime_limit": realtime_limit(), "topics": TOPICS, "runs": runs}


def met(good, words):
    return f"| {words} | {'met' if good else '**missed**'} |"


def page(data):
    of = lambda case: [row["report"] for row in data["runs"] if row["case"] == case and "failed" not in row["report"]]
    failed = [f"- {row['case']}, round {row['round'] + 1}: {row['report']['failed']}" for row in data["runs"] if "failed" in row["report"]]
    calm, busy, fresh = of("calm"), of("busy"), of("set-up")
    row = lambda name, runs: (f"| {name} | {spread([100 * run['in_time'] for run in runs], 4)} | "
                              + " | ".join(spread([run["latency"][key] for run in runs]) for key in ("p50_us", "p99_us", "p999_us", "max_us"))
                              + f" | {spread([run['missing'] for run in runs])} | {spread([run['broken_loss_bounds'] for run in runs])} |")
    asked = [run["commands"] for run in busy if "failed" not in run["commands"]]
    failed += [f"- commands: {run['commands']['failed']}" for run in busy if "failed" in run["commands"]]
    middle = lambda runs, key: statistics.median(key(run) for run in runs)
    targets = []
    if calm and busy:
        times = middle(busy, lambda run: run["latency"]["p99_us"]) / max(middle(calm, lambda run: run["latency"]["p99_us"]), 1)
        in_time = middle(busy, lambda run: run["in_time"])
        targets += [met(in_time >= 1, f"100 % in time beside commands: {100 * in_time:.4f} %"),
                    met(times <= P99_TIMES_MOST, f"p99 beside commands at most twice the calm one: {times:.2f} times")]
    if fresh:
        seconds = middle(fresh, lambda run: run["subscriptions_s"])
        targets.append(met(seconds < SET_UP_SECONDS_MOST, f"{data['topics']} exact subscriptions within 1 s: {seconds:.3f} s"))
    lines = [
        "# Commands beside messages", "",
        f"Command: `{data['command']}`. {origin(data['commit'], data['machine'], data['stolen'])} "
        f"{disturbances(row['report'] for row in data['runs'])} {data['realtime_limit']}", "",
        f"{data['topics']} topics of the workload of FRAME, table 3.2, on one `verge broker` without a partner, TCP on loopback. *Calm*: nothing else. "
        f"*Busy*: meanwhile one client subscribes {FILTERS} exact filters, another registers {REGISTERED} topics and ends them again and again, "
        f"{CLIENTS} clients of MQTT per second come, subscribe and go, and SIGHUP changes the graphs of operators once a second. Latency in us, from "
        "the time at which a message is due. Median (smallest … largest) of the rounds.", "",
        "| target | |", "|---|---|", *targets, "",
        "| | in time % | p50 | p99 | p99.9 | max | missing | topics beyond their loss bound |", "|---|---|---|---|---|---|---|---|",
        row("calm", calm), row("busy", busy), "",
        f"What was asked meanwhile: {spread([run['filters'] for run in asked])} filters in {spread([run['filters_s'] for run in asked], 3)} s, "
        f"{spread([run['registered'] for run in asked])} registrations (the first {REGISTERED} in {spread([run['first_registered_s'] for run in asked], 3)} s), "
        f"{spread([run['clients_per_s'] for run in asked])} clients per second, {spread([run['graphs_changed'] for run in busy])} changes of graphs.", "",
        f"Set-up on a broker that has nothing else to do: {data['topics']} registrations in {spread([run['registrations_s'] for run in fresh], 3)} s, then as "
        f"many exact subscriptions in {spread([run['subscriptions_s'] for run in fresh], 3)} s.", "",
        *(["Failed:", "", *failed, ""] if failed else []),
    ]
    return "\n".join(lines).rstrip() + "\n"


def main():
    to_repository()
    data = read_results("control.json") if OPTIONS.page else measured()
    text = page(data)
    write_results({"control.md": text, "control.json": json.dumps(data, indent=1)})
    print(text)


if __name__ == "__main__":
    with throttle("-1"):
        main()
