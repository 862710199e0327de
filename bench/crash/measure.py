"""What the death of a broker is to the most urgent category: ten topics with a message every 50 ms, of which none may be lost, through a
Verge pair whose primary dies, three nats-servers with JetStream R3 whose stream leader dies, and mosquitto that is started again at
once. Processes are killed, so that their host ends the connections, or (`-silent`) stopped, as if their host had died, so that nobody
hears from them again. RUNS is how often each dies (default 10, 100 for the page), PEER_RUNS how often all but Verge (default RUNS), `--quick`
once, `--only NAME` (several times: several) only these. PRIORITY=0 runs all processes with ordinary scheduling. CLIENTS is a Python with nats-py
and paho."""

import json
import os
import random
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from bench.rooms.code import BROKER
from bench.rooms.options import QUICK, TARGET, program
from bench.rooms.processes import free_ports, said, scheduled

ABOUT = "silence and losses when a broker or its host dies, beside other brokers"
PROGRAMS = ["verge", "verge-bench-peers"]
CODE = BROKER
VARIABLES = ("RUNS", "PEER_RUNS", "PRIORITY")
# What each system is called on the page.
SHOWN = {"verge": "verge pair", "verge-silent": "verge pair, silent", "jetstream": "JetStream R3", "jetstream-silent": "JetStream R3, silent",
         "mosquitto": "mosquitto, started again"}
SWITCHES, SEVERAL = (), {"only": list(SHOWN)}
OTHERS, UNTHROTTLED = True, False

VERGE = program("VERGE", "verge")
PEERS = program("PEERS", "verge-bench-peers")
MOSQUITTO = os.environ.get("MOSQUITTO", "/usr/sbin/mosquitto")
NATS = os.environ.get("NATS", "/usr/sbin/nats-server")
CLIENTS = os.environ.get("CLIENTS", f"{TARGET}/peers/bin/python")
# How it dies.
SILENT = "-silent"
SIGNALS = {False: signal.SIGKILL, True: signal.SIGSTOP}
kind_of = lambda name: name.removesuffix(SILENT)
RUNS = 1 if QUICK else int(os.environ.get("RUNS", "10"))
# The others need up to 20 s for a run.
PEER_RUNS = min(RUNS, int(os.environ.get("PEER_RUNS", str(RUNS))))
PRIORITY = int(os.environ.get("PRIORITY", "50"))
NEEDS = {"verge": [VERGE, PEERS], "jetstream": [NATS, CLIENTS], "mosquitto": [MOSQUITTO, CLIENTS]}
TOPICS = 10
PERIOD_MS = 50
# From the first message to SIGKILL, never at the same phase of the periods; and from there to the last message.
BEFORE_SECONDS = 1.5
AFTER_SECONDS = {"verge": 2.5, "jetstream": 8, "mosquitto": 4}
# How long what is missing may still come, beyond the last message.
SETTLE_SECONDS = {"jetstream": 10, "mosquitto": 3}
START_SECONDS = 15
REPORT_SECONDS = 60
CONFIG = "bench/peers/config"
CLIENT = "bench/peers/clients/crash.py"


class Scene:
    """Processes of one run, and their folder."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="verge-bench-")
        self.children = []

    def path(self, file):
        return os.path.join(self.folder, file)

    def start(self, words, log, urgent=False, **more):
        with open(self.path(log), "ab") as file:
            priority = PRIORITY and PRIORITY + 5 * urgent
            child = subprocess.Popen([str(word) for word in words], stderr=file, preexec_fn=scheduled(priority),
                                     **({"stdin": subprocess.DEVNULL, "stdout": file} | more))
        self.children.append(child)
        return child

    def load(self, words):
        """Starts a load; returns it, and what it says besides being ready."""
        child = self.start(words, "load.log", urgent=True, stdout=subprocess.PIPE)
        line = heard(child, START_SECONDS + 30).split()
        if not line or line[0] != "ready":
            sys.exit(f"the load does not begin: {self.told('load.log')}")
        return child, line[1:]

    def told(self, log):
        try:
            with open(self.path(log), errors="replace") as file:
                return file.read()[-2000:]
        except OSError:
            return ""

    def end(self):
        for child in self.children:
            kill(child)
        shutil.rmtree(self.folder, ignore_errors=True)


def kill(child):
    if child.poll() is None:
        child.send_signal(signal.SIGKILL)
        child.wait()


def heard(child, seconds):
    """A line, or nothing if none comes."""
    ready, _, _ = select.select([child.stdout], [], [], seconds)
    return child.stdout.readline().decode() if ready else ""


def listens(port, child):
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until and child.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return True
        except OSError:
            time.sleep(0.02)
    return False


def wait_until(what, true):
    until = time.monotonic() + START_SECONDS
    while not true():
        if time.monotonic() > until:
            sys.exit(f"{what} within {START_SECONDS} s")
        time.sleep(0.05)


def load_words(name, brokers):
    seconds = BEFORE_SECONDS + 0.5 + AFTER_SECONDS[name]
    common = ["--topics", TOPICS, "--period-ms", PERIOD_MS, "--seconds", seconds]
    if name == "verge":
        return [PEERS, "crash", "--protocol", "verge", "--broker", brokers, "--warm-up", 0, *common]
    kind = {"jetstream": "jetstream", "mosquitto": "mqtt"}[name]
    return [CLIENTS, CLIENT, kind, "--brokers", brokers, "--settle", SETTLE_SECONDS[name], *common]


def strike(child, silent=False):
    """Waits for a while and kills or stops; when."""
    time.sleep(BEFORE_SECONDS + random.random() * 0.5)
    at = time.monotonic_ns()
    child.send_signal(SIGNALS[silent])
    return at


def finished(load, scene):
    ready, _, _ = select.select([load.stdout], [], [], REPORT_SECONDS)
    text = load.stdout.read() if ready else b""
    try:
        return json.loads(text)
    except ValueError:
        sys.exit(f"the load has no report: {text[-300:]!r} {scene.told('load.log')}")


def verge(scene, silent):
    numbers = free_ports(4)
    shutil.copy(os.path.join(CONFIG, "verge-pair.toml"), scene.path("verge.toml"))
    with open(scene.path("verge.toml"), "a") as file:
        for name, clients, pair, role in (("a", *numbers[:2], "primary"), ("b", *numbers[2:], "backup")):
            file.write(f'\n[brokers.{name}]\nclients = "127.0.0.1:{clients}"\npair = "127.0.0.1:{pair}"\nstart_as = "{role}"\n')
        file.write(f"\n[realtime]\npriority = {PRIORITY or 0}\n")
    config = ["--config", scene.path("verge.toml")]
    brokers = {name: scene.start([VERGE, *config, "broker", name], f"{name}.log") for name in "ab"}

    def status():
        done = subprocess.run([VERGE, *config, "--format", "json", "status"], capture_output=True, text=True)
        return json.loads(done.stdout) if done.stdout else {"protected": False, "brokers": []}

    wait_until("the brokers do not become a pair", lambda: status()["protected"])
    load, _ = scene.load(load_words("verge", f"127.0.0.1:{numbers[0]},127.0.0.1:{numbers[2]}"))
    # On a host that is held up, the backup may have taken over meanwhile.
    reigning = next((row["name"] for row in status()["brokers"] if row["role"] == "primary"), "a")
    return strike(brokers[reigning], silent), finished(load, scene)


def jetstream(scene, silent):
    numbers = free_ports(6)
    routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in numbers[3:])
    servers = {}
    for index, (clients, cluster) in enumerate(zip(numbers[:3], numbers[3:])):
        name = f"n{index + 1}"
        shutil.copy(os.path.join(CONFIG, "jetstream.conf"), scene.path(f"{name}.conf"))
        with open(scene.path(f"{name}.conf"), "a") as file:
            file.write(f'server_name: {name}\nlisten: "127.0.0.1:{clients}"\njetstream {{ store_dir: "{scene.path(name)}" }}\n'
                       f'cluster {{ name: bench, listen: "127.0.0.1:{cluster}", routes: [{routes}] }}\n')
        servers[name] = scene.start([NATS, "-c", scene.path(f"{name}.conf")], f"{name}.log")
    for (name, child), port in zip(servers.items(), numbers):
        if not listens(port, child):
            sys.exit(f"nats-server {name} does not listen: {scene.told(name + '.log')}")
    load, said_besides = scene.load(load_words("jetstream", ",".join(f"nats://127.0.0.1:{port}" for port in numbers[:3])))
    return strike(servers[said_besides[0]], silent), finished(load, scene)


def mosquitto(scene, _):
    port, = free_ports(1)
    shutil.copy(os.path.join(CONFIG, "mosquitto-crash.conf"), scene.path("mosquitto.conf"))
    with open(scene.path("mosquitto.conf"), "a") as file:
        user = "root" if os.geteuid() == 0 else "mosquitto"
        file.write(f"listener {port} 127.0.0.1\nuser {user}\npersistence_location {scene.folder}/\n")
    words = [MOSQUITTO, "-c", scene.path("mosquitto.conf")]
    broker = scene.start(words, "broker.log")
    if not listens(port, broker):
        sys.exit(f"mosquitto does not listen: {scene.told('broker.log')}")
    load, _ = scene.load(load_words("mosquitto", f"127.0.0.1:{port}"))
    at = strike(broker)
    broker.wait()
    scene.start(words, "broker.log")
    return at, finished(load, scene)


def seen_of(at, report):
    """What a subscriber has seen of it."""
    arrivals = [[] for _ in report["sent"]]
    seen = [set() for _ in report["sent"]]
    for topic, seq, due, came in sorted(report["came"], key=lambda row: row[3]):
        if seq not in seen[topic]:
            arrivals[topic].append((came, came - due, seq))
        seen[topic].add(seq)
    silence = peak = calm = 0
    for rows in arrivals:
        for before, after in zip(rows, rows[1:]):
            # The stretch without anything that ends after the crash, or one of later.
            if after[0] >= at:
                silence = max(silence, after[0] - before[0])
        peak = max([peak, *(latency for came, latency, _ in rows if came >= at)])
        calm = max([calm, *(latency for came, latency, _ in rows if came < at)])
    runs = [run_of(count, seen[topic]) for topic, count in enumerate(report["sent"])]
    back = all(rows and rows[-1][0] > at for rows in arrivals)
    return {
        "silence_ms": silence / 1e6 if back else None, "peak_ms": peak / 1e6 if back else None, "calm_max_ms": calm / 1e6, "back": back,
        "sent": sum(report["sent"]), "lost": sum(report["sent"]) - sum(map(len, seen)), "longest_run": max(runs),
        "repeated": len(report["came"]) - sum(map(len, seen)), "troubles": report["troubles"], "publisher": report.get("publisher"),
    }


def run_of(count, seen):
    """The longest run of numbers that never came."""
    longest = run = 0
    for seq in range(count):
        run = 0 if seq in seen else run + 1
        longest = max(longest, run)
    return longest


def once(name):
    scene = Scene()
    try:
        act = {"verge": verge, "jetstream": jetstream, "mosquitto": mosquitto}[kind_of(name)]
        return seen_of(*act(scene, name.endswith(SILENT)))
    finally:
        scene.end()


def measure(chosen):
    systems = chosen.only or list(SHOWN)
    missing = {name: [path for path in NEEDS[kind_of(name)] if not shutil.which(path)] for name in systems}
    absent = [f"{SHOWN[name]}, since there is no {programs[0]} (bench/install-peers.sh)" for name, programs in missing.items() if programs]
    for line in absent:
        print(f"left out: {line}", file=sys.stderr)
    by = {name: [] for name in systems if not missing[name]}
    if not by:
        sys.exit("nothing is there to be measured")
    for number in range(RUNS):
        for name in (name for name in by if kind_of(name) == "verge" or number < PEER_RUNS):
            by[name].append(once(name))
            run = by[name][-1]
            print(f"run {number + 1} of {RUNS}: {name}: silence {run['silence_ms'] or 0:.1f} ms, {run['lost']} of {run['sent']} lost",
                  file=sys.stderr, flush=True)
    settings = {"topics": TOPICS, "period_ms": PERIOD_MS, "before_s": BEFORE_SECONDS, "priority": PRIORITY, "shown": {name: SHOWN[name] for name in by},
                "absent": absent, "versions": {"nats": said([NATS, "--version"]), "mosquitto": said([MOSQUITTO, "-h"]).partition("\n")[0]}}
    return {"settings": settings, "figures": {"systems": by}}
