"""`verge broker` beside other brokers and a bare relay, in turn: round trips, one to one, one to many, urgent messages beside bulk, the
workload of FRAME, table 3.2. ROUNDS is how often everything is measured, TOPICS the sizes of the workload, `--quick` once and shortly, `--only NAME` one
broker (several times: several), `--case NAME` one kind, `--keep` keeps what was measured of other kinds. PRIORITY=0 runs all processes with
ordinary scheduling. VERGE, PEERS, MOSQUITTO, NATS, ZENOH and REDIS are the programs; brokers that are missing are left out."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

from bench.rooms import document
from bench.rooms.code import BROKER
from bench.rooms.host import awake
from bench.rooms.noise import undisturbed
from bench.rooms.options import QUICK, program
from bench.rooms.processes import free_ports, said, scheduled, wait_until_listening

ABOUT = "round trips, floods, fan-out, urgent messages and the workload of FRAME, beside other brokers"
CODE = BROKER
VARIABLES = ("ROUNDS", "TOPICS", "PRIORITY")
VERGE = program("VERGE", "verge")
PEERS = program("PEERS", "verge-bench-peers")
MOSQUITTO = os.environ.get("MOSQUITTO", "/usr/sbin/mosquitto")
NATS = os.environ.get("NATS", "/usr/sbin/nats-server")
# The load and the router in one; it has dependencies of its own.
ZENOH = os.environ.get("ZENOH", f"{os.environ.get('CARGO_TARGET_DIR', 'bench/peers/zenoh/target')}/release/verge-bench-zenoh")
REDIS = os.environ.get("REDIS", "/usr/bin/redis-server")
PROGRAMS = {"verge": VERGE, "verge+sleep": VERGE, "mosquitto": MOSQUITTO, "nats": NATS, "zenoh": ZENOH, "redis": REDIS, "relay": PEERS, "keeper": PEERS}
PROTOCOLS = {"verge": "verge", "verge+sleep": "verge", "mosquitto": "mqtt", "nats": "nats", "zenoh": "zenoh", "redis": "redis", "relay": "relay", "keeper": "relay"}
# Those that are not measured in every kind of case.
KINDS_OF = {"verge+sleep": ("pingpong", "apart"), "keeper": ("pingpong", "apart", "frame")}
# The load's name for a kind, where that is another.
COMMANDS = {"apart": "pingpong"}
# Where the broker runs, and where the load, if they are apart.
PROCESSORS = sorted(os.sched_getaffinity(0))
PLACES = {"apart": (PROCESSORS[-1:], PROCESSORS[:1])}
LOADS = {"zenoh": ZENOH}
INSTALLERS = {"zenoh": "cargo build --release in bench/peers/zenoh"}
SWITCHES, SEVERAL = ("keep",), {"only": list(PROGRAMS), "case": ["pingpong", "apart", "flood", "fanout", "urgent", "frame"]}
OTHERS = UNTHROTTLED = True
ROUNDS = 1 if QUICK else int(os.environ.get("ROUNDS", "3"))
# Of brokers, where the host allows it. What is urgent of the load has ten more, a load with a schedule five. One that sends as much as
# goes has five less: above them it would take the processors before a broker has all that it could use of them.
PRIORITY = int(os.environ.get("PRIORITY", "50"))
SATURATING = ("flood", "urgent")
SECONDS = 1.5 if QUICK else 5
URGENT_SECONDS = 4 if QUICK else 15
WARM_UP = 0.5 if QUICK else 1
# A load that takes longer than this is ended, and the case has failed.
PATIENCE_SECONDS = 90
SIZES = {"16 B": 16, "512 B": 512, "16 KiB": 16384}
FAN_OUT = 10
RATES = {"16 B": 1000, "512 B": 1000, "16 KiB": 200}
TOPICS = [int(word) for word in os.environ.get("TOPICS", "1525 7525 13525").split()]
CONFIG = "bench/peers/config"


def cases():
    """Kind, case, words for the load, brokers for which it makes no sense."""
    for size, count in SIZES.items():
        yield "pingpong", size, ["--bytes", count, "--awake"], ()
    for size, count in SIZES.items() if len(PROCESSORS) > 1 else ():
        # The load would keep only its own processor awake.
        yield "apart", size, ["--bytes", count], ()
    for size, count in SIZES.items():
        yield "flood", size, ["--bytes", count], ()
    for size, count in SIZES.items():
        yield "fanout", f"{size}, {RATES[size]}/s", ["--bytes", count, "--subscribers", FAN_OUT, "--rate", RATES[size]], ()
    yield "fanout", "16 B, as many as go", ["--bytes", 16, "--subscribers", FAN_OUT, "--rate", 0], ()
    for size, count in (("64 B", 64), ("16 KiB", 16384)):
        yield "urgent", f"bulk of {size}", ["--bulk-bytes", count, "--urgent-priority", PRIORITY and PRIORITY + 10], ()
    for topics in TOPICS:
        # Streams have no filters.
        yield "frame", f"{topics} topics", ["--topics", topics, "--bytes", 64, "--awake"], ("redis",)


def load_priority(kind, words):
    """Below the broker's where the load sends as much as goes."""
    saturates = kind in SATURATING or ("--rate", 0) in zip(words, words[1:])
    return PRIORITY and PRIORITY + (-5 if saturates else 5)


# Zenoh collects messages for up to a millisecond. Without that, the workload of FRAME, table 3.2, has less latency, and takes more of the
# processor; floods are slower, and nothing else changes much. Its threads serve all sessions of a process, so that those of the urgent
# load cannot have more priority than those of bulk.
ZENOH_SETTINGS = {"frame": {"ZENOH_BATCHING_MS": "0"}, "urgent": {"ZENOH_THREADS_PRIORITY": str(PRIORITY + 10)} if PRIORITY else {}}


def environment(kind):
    return os.environ | ZENOH_SETTINGS.get(kind, {})


class Broker:
    """One of them, on a free port, with its committed configuration."""

    def __init__(self, name, kind, words):
        self.name, self.kind, self.words = name, kind, words
        self.folder = tempfile.mkdtemp(prefix="verge-bench-")
        self.port, pair = free_ports(2)
        self.path = lambda file: os.path.join(self.folder, file)
        self.log = open(self.path("log"), "wb")
        words = getattr(self, name.replace("+", "_"))(pair)
        self.child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, env=environment(kind),
                                      preexec_fn=scheduled(PRIORITY, PLACES.get(kind, [None])[0]))
        self.wait()

    def settings(self, file, added):
        shutil.copy(os.path.join(CONFIG, file), self.folder)
        with open(self.path(file), "a") as to:
            to.write(added)
        return self.path(file)

    def verge(self, pair, realtime=""):
        file = self.settings("verge.toml", f'\n[brokers.a]\nclients = "127.0.0.1:{self.port}"\npair = "127.0.0.1:{pair}"\n'
                             f'start_as = "primary"\n[realtime]\npriority = {PRIORITY or 0}\n{realtime}')
        return [VERGE, "--config", file, "broker", "a"]

    def verge_sleep(self, pair):
        return self.verge(pair, 'spin = "0s"\n')

    def mosquitto(self, _):
        user = "root" if os.geteuid() == 0 else "mosquitto"
        return [MOSQUITTO, "-c", self.settings("mosquitto.conf", f"listener {self.port} 127.0.0.1\nuser {user}\n")]

    def nats(self, _):
        return [NATS, "-c", self.settings("nats.conf", f'listen: "127.0.0.1:{self.port}"\n')]

    def zenoh(self, _):
        return [ZENOH, "router", "--config", os.path.join(CONFIG, "zenoh-router.json5"), "--listen", f"127.0.0.1:{self.port}"]

    def redis(self, _):
        return [REDIS, self.settings("redis.conf", f"bind 127.0.0.1\nport {self.port}\ndir {self.folder}\n")]

    def relay(self, _):
        return [PEERS, "relay", "--listen", f"127.0.0.1:{self.port}"]

    def keeper(self, _):
        return [*self.relay(_), "--keep"]

    def wait(self):
        wait_until_listening(self.port, self.child, self.name, self.told, self.end)

    def told(self):
        with open(self.path("log"), errors="replace") as file:
            return file.read()[-2000:]

    def end(self):
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGKILL)
            self.child.wait()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def once(name, kind, words):
    """One case with a broker that has just started; a report, or why there is none."""
    broker = Broker(name, kind, words)
    try:
        seconds = URGENT_SECONDS if kind == "urgent" else SECONDS
        order = [LOADS.get(name, PEERS), COMMANDS.get(kind, kind), "--protocol", PROTOCOLS[name], "--broker", f"127.0.0.1:{broker.port}", "--pid", broker.child.pid,
                 "--warm-up", WARM_UP, "--seconds", seconds, *words]
        try:
            done = subprocess.run([str(word) for word in order], capture_output=True, text=True, timeout=PATIENCE_SECONDS, env=environment(kind),
                                  preexec_fn=scheduled(load_priority(kind, words), PLACES.get(kind, [None])[-1]))
        except subprocess.TimeoutExpired:
            return {"failed": f"not done after {PATIENCE_SECONDS} s"}
        if done.returncode:
            return {"failed": done.stderr.strip()[-500:], "log": broker.told()[-500:]}
        return json.loads(done.stdout)
    finally:
        broker.end()


def zenoh_version():
    with open("bench/peers/zenoh/Cargo.lock") as file:
        lines = file.read().splitlines()
    return "zenoh " + lines[lines.index('name = "zenoh"') + 1].split('"')[1]


def prepare(cargo):
    """Zenoh's router and load are a crate of their own."""
    if subprocess.run([cargo, "build", "--release", "--locked"], cwd="bench/peers/zenoh").returncode:
        print("no Zenoh: it is not measured", file=sys.stderr)


def versions():
    return {"mosquitto": said([MOSQUITTO, "-h"]).partition("\n")[0], "nats": said([NATS, "--version"]), "zenoh": zenoh_version(),
            "redis": said([REDIS, "--version"])}


def runs_of(there, plan, by):
    runs = []
    for number in range(ROUNDS):
        for kind, case, words, without in plan:
            # Another one begins each time, so that none always follows the same one.
            turn = there[number % len(there):] + there[:number % len(there)]
            for name in turn:
                if name not in without and kind in KINDS_OF.get(name, [kind]):
                    with awake() if kind == "apart" else contextlib.nullcontext():
                        report = undisturbed(lambda: once(name, kind, words))
                    runs.append({"round": number, "kind": kind, "case": case, "broker": name, "commit": by, "report": report})
            print(f"round {number + 1} of {ROUNDS}: {kind}, {case}", file=sys.stderr, flush=True)
    return runs


def measure(chosen):
    brokers = chosen.only or list(PROGRAMS)
    there = [name for name in brokers if shutil.which(PROGRAMS[name])]
    absent = [f"{name}, since there is no {PROGRAMS[name]} ({INSTALLERS.get(name, 'bench/install-peers.sh')})" for name in brokers if name not in there]
    if not shutil.which(PEERS):
        sys.exit(f"there is no {PEERS}: cargo build --release --bin verge-bench-peers, or make bench-peers")
    for line in absent:
        print(f"left out: {line}", file=sys.stderr)
    if not there:
        sys.exit("nothing is there to be measured")
    # Read first, so that nothing is measured in vain.
    kept = document.kept_runs("peers") if chosen.keep else []
    runs = runs_of(there, [case for case in cases() if not chosen.case or case[0] in chosen.case], document.commit())
    kinds = {run["kind"] for run in runs}
    runs += [run for run in kept if run["kind"] not in kinds]
    # Rows are shown in one order, whoever began.
    runs.sort(key=lambda run: list(PROGRAMS).index(run["broker"]))
    settings = {"rounds": ROUNDS, "priority": PRIORITY, "fan_out": FAN_OUT, "patience_s": PATIENCE_SECONDS, "absent": absent, "versions": versions()}
    return {"settings": settings, "figures": {"runs": runs}}
