"""Copies to the backup under load, by policy, and what a SIGKILL of the primary does to results: the workload of ARREC,
table 4.1, each message processed by an operator in the broker. CRASHES is how often the primary dies under lazy copies of all messages; under
periodic ones at 25 ms a third as often, under the others a tenth. DIVIDE: one in so many of the topics. `--quick`: once each."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from bench.rooms.code import BROKER, OPERATORS
from bench.rooms.host import share_stolen, stolen
from bench.rooms.options import QUICK, program
from bench.rooms.processes import free_ports

ABOUT = "copies by policy while a broker processes messages, and crashes"
PROGRAMS = ["verge"]
CODE = (*BROKER, *OPERATORS)
VARIABLES = ("CRASHES", "DIVIDE")
SWITCHES, SEVERAL = (), {}
OTHERS = UNTHROTTLED = False

PROGRAM = program("VERGE", "verge")
CRASHES = 1 if QUICK else int(os.environ.get("CRASHES", "20"))
DIVIDE = int(os.environ.get("DIVIDE", "2"))
TOPICS = [1200, 1400, 1600]
# While copies are counted, and while latencies are.
COUNTED_SECONDS = 2.0
CALM_SECONDS = 2.5
AFTER_SECONDS = 1.0
WARM_UP_SECONDS = 1.0
SETTLE_SECONDS = 0.8
WORK_US = 100
PAYLOAD_BYTES = 512
CLIENT_PRIORITY = 55
POLL_MS = 10
POLICIES = {
    "lazy (all)": ("lazy", 'policy = "lazy"\nevery = "all"'),
    "lazy (loss)": ("lazy", 'policy = "lazy"\nevery = "loss"'),
    "lazy (max)": ("lazy", 'policy = "lazy"\nevery = "max"'),
    "eager": ("eager", 'policy = "eager"'),
    "periodic 50 ms": ("periodic", 'policy = "periodic"\nperiod = "50ms"'),
    "periodic 25 ms": ("periodic", 'policy = "periodic"\nperiod = "25ms"'),
    "retransmission only": ("none", 'policy = "retransmission-only"'),
}
# One crash in so many of those of `lazy (all)`.
SELDOM = {"lazy (all)": 1, "periodic 25 ms": 3}
# Category: L, N, T and D in milliseconds, topics of the table (0: the rest), level of its results.
CATEGORIES = {1: (0, 1, 50, "1s", 50, 2), 2: (0, 1, 100, "100ms", 100, 1), 3: (0, 1, 500, "500ms", 100, 2),
              4: (3, 0, 50, "50ms", 50, 0), 5: (3, 0, 100, "100ms", 0, 1)}


def leb(number):
    """A signed number as WebAssembly has it."""
    out = bytearray()
    while True:
        byte = number & 0x7F
        number >>= 7
        if (number == 0 and not byte & 0x40) or (number == -1 and byte & 0x40):
            out.append(byte)
            return bytes(out)
        out.append(byte | 0x80)


def module(rounds):
    """An operator that divides so often and gives its input back."""
    unsigned = lambda n: bytes([n]) if n < 128 else bytes([n & 0x7F | 0x80]) + unsigned(n >> 7)
    vector = lambda items: unsigned(len(items)) + b"".join(items)
    section = lambda number, body: bytes([number]) + unsigned(len(body)) + body
    name = lambda text: unsigned(len(text)) + text.encode()
    i32, i64, f64 = b"\x7f", b"\x7e", b"\x7c"
    types = [b"\x60" + vector(takes) + vector(gives) for takes, gives in
             [([], [i32]), ([i32, i32, i64], [i32]), ([i64], [i64])]]
    base = 4096
    version = b"\x00\x41\x01\x0b"
    # The length is kept in a global.
    take = b"\x00" + b"\x20\x01\x24\x00" + b"\x41" + leb(base) + b"\x0b"
    run = (b"\x02\x01" + i32 + b"\x01" + f64
           + b"\x41" + leb(rounds) + b"\x21\x01"
           + b"\x44" + bytes(6) + b"\xf0\x3f" + b"\x21\x02"
           + b"\x03\x40"
           + b"\x20\x02" + b"\x44" + bytes(6) + b"\xf0\x3f" + b"\xa0"
           + b"\x44" + bytes(6) + b"\xf0\x3f" + b"\x20\x02\xa3\xa0\x21\x02"
           + b"\x20\x01\x41\x01\x6b\x22\x01\x0d\x00" + b"\x0b"
           + b"\x42" + leb(base << 32) + b"\x23\x00\xad\x84" + b"\x0b")
    bodies = [unsigned(len(body)) + body for body in (version, take, run)]
    exports = [name("memory") + b"\x02\x00"] + [
        name(text) + b"\x00" + bytes([index])
        for index, text in enumerate(["verge_abi_version", "verge_input", "verge_run"])]
    return (b"\x00asm\x01\x00\x00\x00" + section(1, vector(types)) + section(3, vector([b"\x00", b"\x01", b"\x02"]))
            + section(5, vector([b"\x00\x01"])) + section(6, vector([i32 + b"\x01\x41\x00\x0b"]))
            + section(7, vector(exports)) + section(10, vector(bodies)))


def configuration(numbers, policy, topics, module_path):
    a, a_pair, b, b_pair = numbers
    text = f"""[brokers.a]
clients = "127.0.0.1:{a}"
pair = "127.0.0.1:{a_pair}"
start_as = "primary"
[brokers.b]
clients = "127.0.0.1:{b}"
pair = "127.0.0.1:{b_pair}"
[network]
failover = "30ms"
[detection]
poll = "5ms"
[admission]
arrival_cost = "5us"
dispatch_cost = "5us"
replication_cost = "4us"
turn_cost = "8us"
read_cost = "2us"
write_cost = "5us"
kib_cost = "1us"
blocking = "1ms"
[replication]
{policy}
"""
    for number, (loss, retain, period, deadline, fixed, level) in CATEGORIES.items():
        streams = (fixed or topics - 300) // DIVIDE
        for prefix in ("c", "out"):
            text += (f'[[topic]]\nfilter = "{prefix}{number}/+"\nperiod = "{period}ms"\nloss = {loss}\n'
                     f'retain = {retain}\ndeadline = "{deadline}"\nstreams = {streams}\n')
        # As long as anybody waits for a result. Without it, room for 4096 events is made for each topic and operator.
        text += f'[[source]]\ntopic = "c{number}/+"\nvalidity = "1s"\n'
        text += (f'[[operator]]\nname = "work{number}"\nkind = "wasm"\nmodule = "{module_path}"\nanswers = "always"\nremembers = "nothing"\n'
                 f'inputs = ["c{number}/+"]\noutput = "out{number}/+"\nlevel = {level}\ncost = "150us"\n')
        text += f'deadline = "{deadline}"\n'
    return text


class Process:
    """This program in one of its roles."""

    def __init__(self, folder, words, log):
        self.log = open(os.path.join(folder, log), "ab")
        config = ["--config", os.path.join(folder, "verge.toml")]
        self.child = subprocess.Popen([PROGRAM] + config + words, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      stderr=self.log, preexec_fn=ordinary if words[0] == "broker" else urgent)

    def ready(self):
        if self.child.stdout.readline().strip() != b"ready":
            sys.exit(f"a client did not begin: {open(self.log.name).read()[-2000:]}")

    def finish(self):
        self.child.stdin.close()
        text = self.child.stdout.read()
        self.reap()
        return json.loads(text)

    def kill(self):
        """It is a zombie until it is reaped."""
        if self.child.returncode is None:
            self.child.send_signal(signal.SIGKILL)

    def reap(self):
        """Not with a real-time priority: the kernel waits in a loop until nobody looks into the process's directory in /proc any
        more, and whoever does must get to leave it."""
        ordinary()
        self.child.wait()
        urgent()


def urgent():
    """Clients have hosts of their own in a plant; here they must not wait for the operators of a broker, which has 50 and less."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(CLIENT_PRIORITY))
    except PermissionError:
        pass


def ordinary():
    """Brokers ask for priorities by themselves."""
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def status(folder):
    done = subprocess.run([PROGRAM, "--config", os.path.join(folder, "verge.toml"), "--format", "json", "status"],
                          capture_output=True, text=True, preexec_fn=urgent)
    return json.loads(done.stdout) if done.stdout else {"protected": False, "brokers": []}


def primary(report):
    return next((row for row in report["brokers"] if row["role"] == "primary"), None)


def processor_ns(pid):
    """Of all threads, by their names."""
    used = {}
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/comm") as file:
            name = file.read().strip()
        with open(f"/proc/{pid}/task/{thread}/schedstat") as file:
            used[name] = used.get(name, 0) + int(file.read().split()[0])
    return used


def once(policy, topics, module_path):
    """One crash; what subscribers saw."""
    folder = tempfile.mkdtemp(prefix="verge-bench-")
    processes = []
    try:
        with open(os.path.join(folder, "verge.toml"), "w") as file:
            file.write(configuration(free_ports(4), POLICIES[policy][1], topics, module_path))
        brokers = [Process(folder, ["broker", name], f"{name}.log") for name in "ab"]
        processes += brokers
        until = time.monotonic() + 15
        while not status(folder)["protected"]:
            if time.monotonic() > until:
                sys.exit(f"the brokers did not become a pair: {open(folder + '/a.log').read()[-2000:]}")
            time.sleep(0.05)
        filters = [word for number in CATEGORIES for word in ("--filter", f"out{number}/+")]
        receiver = Process(folder, ["worker", "receive", "--latencies"] + filters, "clients.log")
        processes.append(receiver)
        receiver.ready()
        publisher = Process(folder, ["worker", "publish", "--topics", str(topics), "--table", "processing",
                                     "--divide", str(DIVIDE)], "clients.log")
        processes.append(publisher)
        publisher.ready()
        time.sleep(WARM_UP_SECONDS)
        stolen_before = stolen()
        first = primary(status(folder))
        used = [processor_ns(broker.child.pid) for broker in brokers]
        began = time.monotonic()
        time.sleep(COUNTED_SECONDS)
        used_after = [processor_ns(broker.child.pid) for broker in brokers]
        seconds = time.monotonic() - began
        report = status(folder)
        second = primary(report)
        # On a host that is held up, the backup may have suspected the primary meanwhile; then there is nothing to count.
        swapped = second["name"] != first["name"]
        index = "ab".index(second["name"])
        counted = (second["uptime_s"] - first["uptime_s"])
        # Asking for the status takes its time of a processor, before everything else. What it held up must not be taken for calm,
        # nor for what the crash did.
        time.sleep(SETTLE_SECONDS)
        calm_from = time.time_ns()
        # Not always at the same phase of the periods.
        time.sleep(CALM_SECONDS + random.random() * 0.5)
        killed_at = time.time_ns()
        brokers[index].kill()
        time.sleep(AFTER_SECONDS)
        sent = publisher.finish()
        time.sleep(SETTLE_SECONDS)
        received = receiver.finish()
        last = primary(status(folder))
        stolen_after = stolen()
        grown = lambda key: (second["counters"][key] - first["counters"][key]) / counted
        share = lambda broker, wanted: sum(
            used_after[broker][name] - used[broker].get(name, 0) for name in used_after[broker] if wanted(name)) / seconds / 1e9
        return figures(sent, received, calm_from, killed_at) | {
            "policy": policy, "topics": topics, "swapped": swapped, "protected": report["protected"],
            "promotions_before": sum(row["counters"]["promotions"] for row in report["brokers"]),
            "bytes_per_s": grown("replicated_bytes"), "copies_per_s": grown("replicated"),
            "batches_per_s": grown("batches"), "arrived_per_s": grown("arrived"),
            "late_copies": second["counters"]["late_replications"],
            "data_thread": share(index, lambda name: name == "verge"),
            "workers": share(index, lambda name: name.startswith(("level-", "operators-"))),
            "backup": share(1 - index, lambda name: True),
            "promotions": last["counters"]["promotions"] if last else 0,
            "outage_ms": max(sent["outages_ms"], default=None), "behind_ms": sent["behind_ms"],
            "stolen": share_stolen(stolen_before, stolen_after),
        }
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.reap()
        shutil.rmtree(folder, ignore_errors=True)


def quantile(values, q):
    values = sorted(values)
    return values[min(int(len(values) * q), len(values) - 1)] if values else None


def figures(sent, received, calm_from, killed_at):
    """By category: streams whose loss bound was kept, latency while it was calm, and the peak after the crash."""
    published = dict((topic, count) for topic, count in sent["sent"])
    categories = {}
    for number, (loss, *_rest) in CATEGORIES.items():
        streams = {row["topic"]: row for row in received["streams"] if row["topic"].startswith(f"out{number}/")}
        wanted = [topic for topic in published if topic.startswith(f"c{number}/")]
        kept = worst = 0
        broken = []
        for topic in wanted:
            row = streams.get(f"out{topic[1:]}")
            # What never came at the end is lost as well.
            run = max(row["longest_run"], published[topic] - row["next_seq"]) if row else published[topic]
            worst = max(worst, run)
            if row and run <= loss:
                kept += 1
            else:
                broken.append([topic, run])
        rows = received["latencies"].get(f"out{number}", [])
        calm = [latency / 1e3 for at, latency in rows if calm_from <= at < killed_at]
        # The same measure as the peak, where nothing happened: whole stretches of that length, counted back from the crash.
        stretch = AFTER_SECONDS * 1e9
        quiet = [max(part) for part in (
            [latency / 1e3 for at, latency in rows if killed_at - (back + 1) * stretch <= at < killed_at - back * stretch]
            for back in range(int((killed_at - calm_from) / stretch))) if part]
        after = [latency / 1e3 for at, latency in rows if killed_at <= at < killed_at + AFTER_SECONDS * 1e9]
        categories[str(number)] = {
            "topics": len(wanted), "kept": kept, "worst_run": worst, "broken": broken[:5],
            "calm_p50_ms": quantile(calm, 0.5), "calm_p99_ms": quantile(calm, 0.99), "calm_max_ms": max(calm, default=None),
            "quiet_peaks_ms": quiet, "peak_ms": max(after, default=None), "after_p99_ms": quantile(after, 0.99),
        }
    return {"categories": categories}


def calibrate(folder):
    """How often the operator must divide to take WORK_US on this host."""
    path, table = os.path.join(folder, "work.wasm"), os.path.join(folder, "table.csv")
    with open(table, "w") as file:
        file.write("a\n" + "1\n" * 200)
    rounds = 4000
    for _ in range(2):
        with open(path, "wb") as file:
            file.write(module(rounds))
        done = subprocess.run([PROGRAM, "--format", "json", "operator", "test", path, "--input", table, "--output", "f64"],
                              capture_output=True, text=True, preexec_fn=urgent)
        if done.returncode:
            sys.exit(f"the operator does not run: {done.stderr}{done.stdout[-500:]}")
        report = json.loads(done.stdout)
        took = report["median_us"]
        rounds = max(int(rounds * WORK_US / took), 100)
    return rounds, path


def measure(_chosen):
    urgent()
    folder = tempfile.mkdtemp(prefix="verge-bench-")
    rounds, module_path = calibrate(folder)
    plan = []
    for turn in range(CRASHES):
        for policy in POLICIES:
            every = SELDOM.get(policy, 10)
            if turn % every == 0:
                plan.append((policy, TOPICS[turn // every % len(TOPICS)]))
    runs = []
    for number, (policy, topics) in enumerate(plan):
        runs.append(once(policy, topics, module_path))
        kept = all(row["kept"] == row["topics"] for row in runs[-1]["categories"].values())
        print(f"run {number + 1} of {len(plan)}: {policy}, {topics}: {'kept' if kept else 'broken'}, "
              f"{runs[-1]['bytes_per_s'] / 1e3:.0f} kB/s", file=sys.stderr, flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    settings = {"divide": DIVIDE, "sizes": TOPICS, "divisions": rounds, "work_us": WORK_US, "payload_bytes": PAYLOAD_BYTES, "poll_ms": POLL_MS,
                "policies": list(POLICIES)}
    return {"settings": settings, "figures": {"runs": runs}}
