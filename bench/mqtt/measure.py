"""`verge broker` beside Debian's mosquitto, in turn: messages per processor second, latency, urgent messages beside bulk, and memory
of idle connections. ROUNDS is how often everything is measured, `--quick` once and shortly, `--only NAME` one broker. PRIORITY=0 runs all
processes with ordinary scheduling. VERGE, LOAD and MOSQUITTO are the programs."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

from bench.rooms.code import BROKER
from bench.rooms.options import QUICK, program
from bench.rooms.processes import free_ports, said, scheduled, wait_until_listening

ABOUT = "the MQTT gateway beside mosquitto"
PROGRAMS = ["verge", "verge-bench-mqtt"]
CODE = (*BROKER, "crates/mqtt")
VARIABLES = ("ROUNDS", "PRIORITY")
SWITCHES, SEVERAL = (), {"only": ["verge", "mosquitto"]}
OTHERS, UNTHROTTLED = True, False

VERGE = program("VERGE", "verge")
LOAD = program("LOAD", "verge-bench-mqtt")
MOSQUITTO = os.environ.get("MOSQUITTO", "/usr/sbin/mosquitto")
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
        wait_until_listening(self.port, self.child, name, self.told, self.end)

    def told(self):
        with open(os.path.join(self.folder, "log"), errors="replace") as file:
            return file.read()[-2000:]

    def end(self):
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGKILL)
            self.child.wait()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def once(name, order):
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


def measure(chosen):
    brokers = chosen.only or ["verge", "mosquitto"]
    for name, path in (("verge", VERGE), ("verge-bench-mqtt", LOAD)):
        if not shutil.which(path):
            sys.exit(f"there is no {path}: cargo build --release --bin {name}, or make bench")
    if "mosquitto" in brokers and not os.path.exists(MOSQUITTO):
        sys.exit(f"there is no {MOSQUITTO}: apt-get install mosquitto, or --only verge")
    runs, plan = [], list(cases())
    for number in range(ROUNDS):
        for kind, case, order in plan:
            for name in brokers if number % 2 == 0 else brokers[::-1]:
                runs.append({"round": number, "kind": kind, "case": case, "broker": name, "report": once(name, order)})
            print(f"round {number + 1} of {ROUNDS}: {kind}, {case}", file=sys.stderr, flush=True)
    settings = {"rounds": ROUNDS, "priority": PRIORITY, "brokers": brokers, "payload_bytes": PAYLOAD_BYTES, "connections": CONNECTIONS,
                "version": said([MOSQUITTO, "-h"]).partition("\n")[0]}
    return {"settings": settings, "figures": {"runs": runs}}
