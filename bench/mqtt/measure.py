#!/usr/bin/env python3
"""`verge broker` beside Debian's mosquitto, in turn: messages per processor second, latency, urgent messages beside bulk, and memory
of idle connections. Writes bench/results/mqtt.md and mqtt.json, or where RESULTS says. ROUNDS is how often everything is measured, `--quick` once and
shortly, `--only NAME` one broker. PRIORITY=0 runs all processes with ordinary scheduling. VERGE, LOAD and MOSQUITTO are the programs."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from bench.rooms.common import QUICK, command, commit, free_ports, machine, options, origin, program, said, scheduled, share_stolen, spread, stolen, to_repository, write_results

OPTIONS = options(__doc__, "quick", only=["verge", "mosquitto"])
VERGE = program("VERGE", "verge")
LOAD = program("LOAD", "verge-bench-mqtt")
MOSQUITTO = os.environ.get("MOSQUITTO", "/usr/sbin/mosquitto")
BROKERS = OPTIONS.only or ["verge", "mosquitto"]
ROUNDS = 1 if QUICK else int(os.environ.get("ROUNDS", "5"))
# Of the brokers, where the host allows it; the load has five more.
PRIORITY = int(os.environ.get("PRIORITY", "50"))
SECONDS = 2 if QUICK else 5
URGENT_SECONDS = 5 if QUICK else 20
WARM_UP_SECONDS = 1
CONNECTIONS = 10000
PAYLOAD_BYTES = 64
# Messages of one publisher that may be on their way: so many that brokers can collect them, and one, with which they cannot.
WINDOWS = (50, 1)
VERSION = 4
START_SECONDS = 15
# Name: publishers, subscribers of each, moderate rate of messages per second.
SHAPES = {"1:1": (10, 1, 2000), "1:100": (1, 100, 100)}


def cases():
    """Name of the kind, name of the case, order for the load."""
    for name, (publishers, fan_out, rate) in SHAPES.items():
        for qos in (0, 1):
            common = {"qos": qos, "publishers": publishers, "fan_out": fan_out, "payload": PAYLOAD_BYTES, "topic": "bench",
                      "window": WINDOWS[0], "warm_up_s": WARM_UP_SECONDS, "seconds": SECONDS}
            for window in WINDOWS:
                yield "throughput", f"QoS {qos}, {name}, window {window}", {"load": common | {"rate": 0, "window": window}}
            yield "latency", f"QoS {qos}, {name}, {rate}/s", {"load": common | {"rate": rate}}
    for qos in (0, 1):
        yield "urgent", f"QoS {qos}", {"urgent": {
            "qos": qos, "rate": 10, "urgent_topic": "urgent/1", "bulk_topic": "bulk/1", "bulk_publishers": 1, "bulk_subscribers": 1,
            "bulk_payload": PAYLOAD_BYTES, "warm_up_s": WARM_UP_SECONDS, "seconds": URGENT_SECONDS}}
    for subscribe in (False, True):
        yield "idle", "with a subscription each" if subscribe else "without subscriptions", {
            "idle": {"connections": CONNECTIONS, "subscribe": subscribe}}


class Broker:
    """One of the two, on a free port, with its committed configuration."""

    def __init__(self, name):
        self.folder = tempfile.mkdtemp(prefix="verge-bench-")
        self.port, clients, pair = free_ports(3)
        here = os.path.dirname(os.path.abspath(__file__))
        path = lambda file: os.path.join(self.folder, file)
        if name == "verge":
            shutil.copy(os.path.join(here, "verge.toml"), self.folder)
            os.mkdir(path("conf.d"))
            with open(path("conf.d/here.toml"), "w") as file:
                file.write(f'[brokers.a]\nclients = "127.0.0.1:{clients}"\npair = "127.0.0.1:{pair}"\nstart_as = "primary"\n'
                           f'mqtt = "127.0.0.1:{self.port}"\n[realtime]\npriority = {PRIORITY or 0}\n')
            words = [VERGE, "--config", path("verge.toml"), "broker", "a"]
        else:
            shutil.copy(os.path.join(here, "mosquitto.conf"), self.folder)
            with open(path("mosquitto.conf"), "a") as file:
                file.write(f"listener {self.port} 127.0.0.1\nuser {'root' if os.geteuid() == 0 else 'mosquitto'}\n")
            words = [MOSQUITTO, "-c", path("mosquitto.conf")]
        self.log = open(path("log"), "wb")
        self.child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
                                      preexec_fn=scheduled(PRIORITY))
        until = time.monotonic() + START_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                break
            except OSError:
                if self.child.poll() is not None or time.monotonic() > until:
                    said = open(path("log")).read()[-2000:]
                    self.end()
                    sys.exit(f"{name} does not listen: {said}")
                time.sleep(0.02)

    def end(self):
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGKILL)
            self.child.wait()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def measure(name, order):
    """One case with a broker that has just started."""
    broker = Broker(name)
    try:
        where = {"port": broker.port, "pid": broker.child.pid, "version": VERSION}
        full = {kind: where | values for kind, values in order.items()}
        done = subprocess.run([LOAD, json.dumps(full)], capture_output=True, text=True, preexec_fn=scheduled(PRIORITY and PRIORITY + 5))
        if done.returncode:
            log = open(broker.log.name).read()[-1000:]
            sys.exit(f"{name}, {json.dumps(order)}: {done.stderr.strip()}\n{log}")
        return json.loads(done.stdout)
    finally:
        broker.end()


def table(results, kind, columns):
    """Rows of a case and a broker; columns: title, what of a run, digits."""
    lines = ["| case | broker | " + " | ".join(title for title, _, _ in columns) + " |", "|---" * (len(columns) + 2) + "|"]
    for case in dict.fromkeys(row["case"] for row in results if row["kind"] == kind):
        for name in BROKERS:
            runs = [row["report"] for row in results if row["kind"] == kind and row["case"] == case and row["broker"] == name]
            cells = [spread([of(run) for run in runs], digits) for _, of, digits in columns]
            lines.append(f"| {case} | {name} | {' | '.join(cells)} |")
    return lines + [""]


def page(results, by_commit, taken):
    version = said([MOSQUITTO, "-h"]).splitlines()[0]
    us = lambda key: lambda report: report["latency"][key]
    scheduling = f"Brokers have SCHED_FIFO priority {PRIORITY}, the load {PRIORITY + 5}" if PRIORITY else "All have ordinary scheduling"
    lines = [
        "# MQTT beside mosquitto",
        "",
        f"Command: `{command('ROUNDS', 'PRIORITY')}`. {origin(by_commit, machine(), taken)}",
        "",
        f"{version} with `bench/mqtt/mosquitto.conf`, `verge broker` without a partner with `bench/mqtt/verge.toml`. {scheduling}. Every "
        f"measurement starts a broker anew, both in turn. Payloads of {PAYLOAD_BYTES} bytes, MQTT 3.1.1, TCP on loopback. Median (smallest … "
        "largest) of the rounds.",
        "",
        "## Messages per processor second",
        "",
        "10 publishers with one subscriber each, or one with 100. A publisher sends when fewer of its messages than the window have "
        "not yet come or, with QoS 1, have not been answered. Figure: messages delivered per second of processor time of the broker's process.",
        "",
        *table(results, "throughput", [("delivered per broker second", lambda r: r["delivered_per_broker_s"], 0),
                                       ("delivered per second", lambda r: r["delivered_per_s"], 0),
                                       ("broker, % of a processor", lambda r: 100 * r["broker_s"] / r["seconds"], 0),
                                       ("load, %", lambda r: 100 * r["load_s"] / r["seconds"], 0),
                                       ("missing", lambda r: r["missing"], 0)]),
        "## Latency at a moderate rate, us",
        "",
        "From the moment at which a message is due until the subscriber has read it. The rate is that of publishing.",
        "",
        *table(results, "latency", [("p50", us("p50_us"), 0), ("p99", us("p99_us"), 0), ("max", us("max_us"), 0),
                                    ("delivered per broker second", lambda r: r["delivered_per_broker_s"], 0),
                                    ("missing", lambda r: r["missing"], 0)]),
        "## Urgent beside bulk, us",
        "",
        "10 urgent messages per second, while one publisher sends QoS 0 as fast as its socket takes it, to one subscriber.",
        "",
        *table(results, "urgent", [("p50", us("p50_us"), 0), ("p99", us("p99_us"), 0), ("max", us("max_us"), 0),
                                   ("lost", lambda r: r["urgent_published"] - r["urgent_delivered"], 0),
                                   ("bulk delivered per second", lambda r: r["bulk_delivered_per_s"], 0),
                                   ("broker, % of a processor", lambda r: 100 * r["broker_share"], 0)]),
        f"## Memory of {CONNECTIONS} idle connections, MB",
        "",
        *table(results, "idle", [("resident", lambda r: r["after_bytes"] / 1e6, 1), ("before", lambda r: r["before_bytes"] / 1e6, 1),
                                 ("bytes per connection", lambda r: r["bytes_per_connection"], 0),
                                 ("seconds to connect", lambda r: r["connecting_s"], 1)]),
    ]
    while not lines[-1]:
        lines.pop()
    text = "\n".join(lines) + "\n"
    write_results({"mqtt.md": text, "mqtt.json": json.dumps(results, indent=1)})
    print(text)


def main():
    to_repository()
    for name, path in (("verge", VERGE), ("verge-bench-mqtt", LOAD)):
        if not shutil.which(path):
            sys.exit(f"there is no {path}: cargo build --release --bin {name}, or make bench")
    if "mosquitto" in BROKERS and not os.path.exists(MOSQUITTO):
        sys.exit(f"there is no {MOSQUITTO}: apt-get install mosquitto, or --only verge")
    results = []
    before, by_commit = stolen(), commit()
    plan = list(cases())
    for number in range(ROUNDS):
        for kind, case, order in plan:
            for name in BROKERS if number % 2 == 0 else BROKERS[::-1]:
                results.append({"round": number, "kind": kind, "case": case, "broker": name, "report": measure(name, order)})
            print(f"round {number + 1} of {ROUNDS}: {kind}, {case}", file=sys.stderr, flush=True)
    after = stolen()
    page(results, by_commit, share_stolen(before, after))


if __name__ == "__main__":
    main()
