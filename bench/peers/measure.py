#!/usr/bin/env python3
"""`verge broker` beside other brokers and a bare relay, in turn: round trips, one to one, one to many, urgent messages beside bulk, the
workload of FRAME, table 3.2. Writes bench/results/peers.md, peers.json and pictures. ROUNDS is how often everything is measured,
`--quick` once and shortly, `--only NAME` one broker (several times: several), `--case NAME` one kind, `--keep` leaves on the page what it
has of other kinds, `--page` writes page and pictures anew from peers.json. PRIORITY=0 runs all processes with ordinary scheduling. VERGE,
PEERS, MOSQUITTO, NATS, ZENOH and REDIS are the programs; brokers that are missing are left out."""

import contextlib
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

from bench.rooms import pictures
from bench.rooms.common import (KEPT_AWAKE, QUICK, awake, command, commit, disturbances, free_ports, machine, options, origin, program, read_results,
                    realtime_limit, said, scheduled, share_stolen, spread, stolen, throttle, to_repository, undisturbed, write_results)

VERGE = program("VERGE", "verge")
PEERS = program("PEERS", "verge-bench-peers")
MOSQUITTO = os.environ.get("MOSQUITTO", "/usr/sbin/mosquitto")
NATS = os.environ.get("NATS", "/usr/sbin/nats-server")
# The load and the router in one; it has dependencies of its own.
ZENOH = os.environ.get("ZENOH", f"{os.environ.get('CARGO_TARGET_DIR', 'bench/zenoh/target')}/release/verge-bench-zenoh")
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
INSTALLERS = {"zenoh": "cargo build --release in bench/zenoh"}
OPTIONS = options(__doc__, "quick", "keep", "page", only=list(PROGRAMS), case=["pingpong", "apart", "flood", "fanout", "urgent", "frame"])
BROKERS = OPTIONS.only or list(PROGRAMS)
KINDS = OPTIONS.case
ROUNDS = 1 if QUICK else int(os.environ.get("ROUNDS", "3"))
# Of brokers, where the host allows it. What is urgent of the load has ten more, a load with a schedule five. One that sends as much as
# goes has five less: above them it would take the processors before a broker has all that it could use of them.
PRIORITY = int(os.environ.get("PRIORITY", "50"))
SATURATING = ("flood", "urgent")
SECONDS = 1.5 if QUICK else 5
URGENT_SECONDS = 4 if QUICK else 15
WARM_UP = 0.5 if QUICK else 1
START_SECONDS = 15
# A load that takes longer than this is ended, and the case has failed.
PATIENCE_SECONDS = 90
SIZES = {"16 B": 16, "512 B": 512, "16 KiB": 16384}
FAN_OUT = 10
RATES = {"16 B": 1000, "512 B": 1000, "16 KiB": 200}
TOPICS = [int(word) for word in os.environ.get("TOPICS", "1525 7525 13525").split()]
CONFIG = os.path.join(os.path.dirname(os.path.abspath(__file__)), "config")


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
        until = time.monotonic() + START_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                if self.child.poll() is not None or time.monotonic() > until:
                    told = self.told()
                    self.end()
                    sys.exit(f"{self.name} does not listen: {told}")
                time.sleep(0.02)

    def told(self):
        with open(self.path("log"), errors="replace") as file:
            return file.read()[-2000:]

    def end(self):
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGKILL)
            self.child.wait()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def measure(name, kind, words):
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


def rows_of(results, kind):
    """Case, broker, reports that succeeded, failures; in the order of measuring."""
    mine = [row for row in results if row["kind"] == kind]
    for case in dict.fromkeys(row["case"] for row in mine):
        for name in dict.fromkeys(row["broker"] for row in results):
            runs = [row["report"] for row in mine if row["case"] == case and row["broker"] == name]
            if runs:
                good = [run for run in runs if "failed" not in run]
                yield case, name, good, [run["failed"] for run in runs if "failed" in run]


def table(results, kind, columns):
    """Columns: title, what of a report, digits."""
    lines = ["| case | broker | " + " | ".join(title for title, _, _ in columns) + " |", "|---" * (len(columns) + 2) + "|"]
    for case, name, good, failed in rows_of(results, kind):
        cells = [spread([of(run) for run in good], digits) for _, of, digits in columns]
        if failed:
            cells[0] += f", failed {len(failed)} times: {failed[0].splitlines()[-1] if failed[0] else 'no reason given'}"
        lines.append(f"| {case} | {name} | {' | '.join(cells)} |")
    return lines + [""]


def section(results, kind, title, words, picture, columns):
    """A heading, what it is, a picture and the table; nothing if it was not measured."""
    if not any(row["kind"] == kind for row in results):
        return []
    return [f"## {title}", "", words, "", *picture, *table(results, kind, columns)]


def troubles(results):
    """What connections met with, and messages that are none of the load."""
    lines = []
    for row in results:
        report = row["report"]
        told = list(dict.fromkeys(report.get("troubles", [])))
        told += [f"{report[key]} strange messages" for key in ("strange", "bulk_strange") if report.get(key)]
        if told:
            lines.append(f"- {row['kind']}, {row['case']}, {row['broker']}, round {row['round'] + 1}: {'; '.join(told)}")
    return ["Connections that met with trouble:", "", *lines, ""] if lines else []


def groups(results, kind, of, wanted=lambda case: True):
    found = {}
    for case, name, good, _ in rows_of(results, kind):
        values = [of(run) for run in good]
        if values and wanted(case) and min(values) > 0:
            found.setdefault(case, []).append((name, statistics.median(values), min(values), max(values)))
    return list(found.items())


def origins(results):
    """By kind: its commit, and how many rounds it has."""
    found = {}
    for row in results:
        _, rounds = found.get(row["kind"], ("", 0))
        found[row["kind"]] = row["commit"], max(rounds, 1 + row["round"])
    return found


def rounds_of(results, *kinds):
    """How many rounds these kinds have, in words."""
    counts = {rounds for kind, (_, rounds) in origins(results).items() if kind in kinds} or {1}
    few, many = min(counts), max(counts)
    if many == 1:
        return "One round"
    return f"Median of {many} rounds" if few == many else f"Median of {few} to {many} rounds"


def draw(results):
    """File name and picture."""
    cpu = lambda run: run["broker_us_per_delivered"]
    lines = []
    for case, name, good, _ in rows_of(results, "urgent"):
        if good and case == "bulk of 64 B":
            middle = lambda key: statistics.median(run["latency"][key] for run in good)
            lines.append((name, [(title, middle(key)) for title, key in
                                 (("p50", "p50_us"), ("p99", "p99_us"), ("p99.9", "p999_us"), ("max", "max_us"))]))
    pictures_of = {
        "peers-urgent.svg": pictures.percentiles(
            "Urgent messages while bulk saturates the broker", f"10 topics at 10 Hz beside one publisher of 64 B without pause. {rounds_of(results, 'urgent')}.",
            "us, from due to arrival", lines),
        "peers-cpu.svg": pictures.bars(
            "Processor time of the broker per message",
            f"Flood and the workload of table 3.2. {rounds_of(results, 'flood', 'frame')}, line: smallest to largest.",
            "us per message", [(f"flood, {case}", rows) for case, rows in groups(results, "flood", cpu)] + groups(results, "frame", cpu)),
        "peers-flood.svg": pictures.bars(
            "Messages per second, one publisher to one subscriber", f"As many as go, on shared processors. {rounds_of(results, 'flood')}, line: smallest to largest.",
            "messages per second", groups(results, "flood", lambda run: run["delivered_per_s"])),
    }
    return {name: picture for name, picture in pictures_of.items() if picture}


def zenoh_version():
    with open("bench/zenoh/Cargo.lock") as file:
        lines = file.read().splitlines()
    return "zenoh " + lines[lines.index('name = "zenoh"') + 1].split('"')[1]


def told_of_kept(data):
    """Kinds that were measured by another commit, or in other rounds, than the command says."""
    kept = {}
    for kind, measured_by in origins(data["runs"]).items():
        if measured_by != (data["commit"], data["rounds"]):
            kept.setdefault(measured_by, []).append(kind)
    return "".join(f" Kept from commit {commit} ({rounds} {'round' if rounds == 1 else 'rounds'}): {', '.join(sorted(kinds))}."
                   for (commit, rounds), kinds in sorted(kept.items()))


def page(data, drawn):
    results, absent = data["runs"], data["absent"]
    versions = {"mosquitto": said([MOSQUITTO, "-h"]).splitlines()[:1], "nats": [said([NATS, "--version"])], "zenoh": [zenoh_version()], "redis": [said([REDIS, "--version"])]}
    measured = list(dict.fromkeys(row["broker"] for row in results))
    shown = "; ".join(" ".join(versions[name]) for name in measured if name in versions)
    shown = f"{shown}. " if shown else ""
    scheduling = (f"Brokers have SCHED_FIFO priority {PRIORITY}, loads with a schedule {PRIORITY + 5}, those that send as much as goes {PRIORITY - 5}, "
                  f"so that brokers have what they can use of the processors, and what is urgent {PRIORITY + 10}"
                  if PRIORITY else "All have ordinary scheduling")
    latency = lambda key, of="latency": lambda report: report[of][key]
    missing = ("missing", lambda r: r["missing"], 0)
    cost = ("broker us per message", lambda r: r["broker_us_per_delivered"], 3)
    resident = ("resident MB", lambda r: r["broker_resident_bytes"] / 1e6, 1)
    load = ("load, %", lambda r: 100 * r["load_share"], 0)
    percent = ("broker, % of a processor", lambda r: 100 * r["broker_share"], 0)
    round_trips = [*((title, latency(key, "round_trip"), digits) for title, key, digits in
                     (("p50", "p50_us", 1), ("p99", "p99_us", 1), ("p99.9", "p999_us", 1), ("max", "max_us", 0))), missing]
    picture = lambda name, words: [f"![{words}]({name})", ""] if name in drawn else []
    lines = [
        "# Verge beside other brokers",
        "",
        f"Command: `{data['command']}`. {origin(data['commit'], data['machine'], data['stolen'])} "
        f"{disturbances(row['report'] for row in results)}{told_of_kept(data)}",
        "",
        f"{shown}Settings are in `bench/peers/config/`. `verge` is one `verge broker` without a partner, loaded by its Rust client; "
        "`mosquitto` speaks MQTT 3.1.1 with QoS 0, `nats` its text protocol, `zenoh` a router and clients of its own library (with FRAME, table 3.2, they collect no messages for later), `redis` streams (XADD, XREAD BLOCK), and `relay` is the floor: "
        "an epoll loop that hands bytes on and looks at none. `keeper` is that loop with the least that any broker does besides which keeps messages and serves them by deadline: "
        "it cuts what comes into messages, notes their numbers, keeps them in a ring for each topic, and writes them out, the earliest deadline first. TCP on loopback, brokers and load on the same processors. "
        f"{scheduling}. {data['realtime_limit']} Every measurement starts a broker anew, all in turn. Median (smallest … largest) of the rounds.",
        "",
        *[f"Left out: {line}." for line in absent], *([""] if absent else []),
        "*Missing* are messages, of all that were sent in a run, that had not come when nothing came any more.",
        "",
        *section(results, "urgent", "Urgent beside bulk, us",
                 "10 topics at 10 Hz each, while one publisher sends as much as its connection takes to one subscriber. From the time at which "
                 "a message is due until the subscriber has it. How busy each broker is stands beside it. Verge holds up no publisher for a subscriber that does "
                 "not read: of bulk, which is best effort here, it drops the oldest beyond `limits.subscriber_backlog`. The others hold the publisher up, but for Redis, which cuts its stream.", picture("peers-urgent.svg", "percentiles of urgent messages by broker"),
                 [("p50", latency("p50_us"), 0), ("p99", latency("p99_us"), 0), ("p99.9", latency("p999_us"), 0),
                  ("max", latency("max_us"), 0), ("urgent missing", lambda r: r["urgent_missing"], 0),
                  ("bulk delivered per second", lambda r: r["delivered_per_s"], 0), ("bulk missing", lambda r: r["bulk_missing"], 0),
                  percent, load, resident]),
        *section(results, "flood", "Flood: one publisher, one subscriber",
                 "As many messages as go, at most 65 536 or 4 MiB of them on their way.",
                 picture("peers-flood.svg", "messages per second by broker"),
                 [("delivered per second", lambda r: r["delivered_per_s"], 0), cost, percent, load, resident, missing]),
        *picture("peers-cpu.svg", "processor time per message by broker"),
        *section(results, "pingpong", "Round trips, us",
                 "One message there, its answer back, then the next: four sockets, the broker twice. `verge+sleep` is `verge` with `realtime.spin = \"0s\"`, "
                 f"which sleeps at once instead of looking for messages first where the last came soon. {KEPT_AWAKE}", [], round_trips),
        *section(results, "apart", "Round trips, the broker on a processor of its own, us",
                 "The same, with the broker on one processor and the load on another: the kernel has no choice where to put threads.", [], round_trips),
        *section(results, "fanout", f"One to {FAN_OUT}, us", "Processor time is per delivery.", [],
                 [("p50", lambda r: r["latency"] and r["latency"]["p50_us"], 0), ("p99", lambda r: r["latency"] and r["latency"]["p99_us"], 0),
                  ("max", lambda r: r["latency"] and r["latency"]["max_us"], 0), cost,
                  ("delivered per second", lambda r: r["delivered_per_s"], 0), missing]),
        *section(results, "frame", "The workload of FRAME, table 3.2, us",
                 "Six categories with periods of 50, 100 and 500 ms, published in batches of 1 to 50 topics by one connection, 64 bytes each, "
                 f"to one subscriber. Batches that are due at the same moment leave in one piece. {KEPT_AWAKE} *Urgent* are the two categories of 50 ms. *In time* is within the period. A load that is not done within {PATIENCE_SECONDS} s has failed: Zenoh's "
                 "client takes longer than that to declare 60 025 publishers.", [],
                 [("messages per second", lambda r: r["published_per_s"], 0), ("p50", latency("p50_us"), 0), ("p99", latency("p99_us"), 0),
                  ("p99.9", latency("p999_us"), 0), ("urgent p99", latency("p99_us", "urgent"), 0),
                  ("in time %", lambda r: 100 * r["in_time"], 3), cost, resident, ("load late p99", latency("p99_us", "load_late"), 0),
                  missing, ("topics beyond their loss bound", lambda r: r["broken_loss_bounds"], 0)]),
        *troubles(results),
    ]
    while not lines[-1]:
        lines.pop()
    return "\n".join(lines) + "\n"


def measured():
    """Everything that was asked for."""
    there = [name for name in BROKERS if shutil.which(PROGRAMS[name])]
    absent = [f"{name}, since there is no {PROGRAMS[name]} ({INSTALLERS.get(name, 'bench/install-peers.sh')})" for name in BROKERS if name not in there]
    if not shutil.which(PEERS):
        sys.exit(f"there is no {PEERS}: cargo build --release --bin verge-bench-peers, or make bench-peers")
    for line in absent:
        print(f"left out: {line}", file=sys.stderr)
    if not there:
        sys.exit("nothing is there to be measured")
    results, by = [], commit()
    before = stolen()
    plan = [case for case in cases() if not KINDS or case[0] in KINDS]
    for number in range(ROUNDS):
        for kind, case, words, without in plan:
            # Another one begins each time, so that none always follows the same one.
            turn = there[number % len(there):] + there[:number % len(there)]
            for name in turn:
                if name not in without and kind in KINDS_OF.get(name, [kind]):
                    with awake() if kind == "apart" else contextlib.nullcontext():
                        report = undisturbed(lambda: measure(name, kind, words))
                    results.append({"round": number, "kind": kind, "case": case, "broker": name, "commit": by, "report": report})
            print(f"round {number + 1} of {ROUNDS}: {kind}, {case}", file=sys.stderr, flush=True)
    return {"command": command("ROUNDS", "TOPICS", "PRIORITY"), "rounds": ROUNDS, "commit": by, "machine": machine(), "stolen": share_stolen(before, stolen()),
            "realtime_limit": realtime_limit(), "absent": absent, "runs": results}


def main():
    to_repository()
    if OPTIONS.page:
        data = read_results("peers.json")
    else:
        data = measured()
        if OPTIONS.keep:
            kinds = {row["kind"] for row in data["runs"]}
            data["runs"] += [row for row in read_results("peers.json")["runs"] if row["kind"] not in kinds]
    # Rows are shown in one order, whoever began.
    data["runs"].sort(key=lambda row: list(PROGRAMS).index(row["broker"]))
    drawn = draw(data["runs"])
    text = page(data, drawn)
    write_results(drawn | {"peers.md": text, "peers.json": json.dumps(data, indent=1)})
    print(text)


if __name__ == "__main__":
    with throttle("-1"):
        main()
