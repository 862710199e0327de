"""Control tasks on the key-value store, on Redis and on etcd, with all nodes on this host: iterations that succeed, what reads and writes
take, and how long the store's nodes coordinate; with a dead and with a lying node, by number of keys, nodes and lanes; the workload of an
engine controller, and more keys until it fails; all of them on hosts with links of their own (wire.py), with a host that is late, loses or
corrupts what it sends; reads from shared memory; and the core on links of a stated speed. SECONDS is how long iterations count (30; the engine
controller's at least 100), ROUNDS how often everything is measured (1), `--quick` takes few cells and little time, `--part NAME` (several times:
several) only these. VERGE, KV, REDIS and ETCD are the programs; stores that are missing are left out."""

import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time

from bench.kv.judge import brief, fails, title
from bench.kv.stores import ETCD, REDIS, VERGE, WIRE_FAULTS, Store, faulty, is_liar
from bench.rooms.host import awake
from bench.rooms.noise import undisturbed
from bench.rooms.options import QUICK, program
from bench.rooms.processes import said, scheduled

ABOUT = "the key-value store beside Redis and etcd"
PROGRAMS = ["verge", "verge-bench-kv", "verge-bench-awake"]
CODE = ("crates/contract", "crates/kv", "crates/kv-client", "crates/kv-host", "crates/kv-shared")
VARIABLES = ("SECONDS", "ROUNDS")
PARTS = ["control", "single", "faults", "network", "automotive", "keys", "lanes", "reads", "links"]
SWITCHES, SEVERAL = (), {"part": PARTS}
OTHERS, UNTHROTTLED = True, False

KV = program("KV", "verge-bench-kv")
SECONDS = float(os.environ.get("SECONDS", "3" if QUICK else "30"))
ROUNDS = 1 if QUICK else int(os.environ.get("ROUNDS", "1"))
# What In-ConcReTeS ignores.
WARM_UP = 2.0
# From starting the tasks until they have their places, and from the end until they have said what came of it.
READY_SECONDS = 40
REPORT_SECONDS = 20
FAULT_AFTER = 1 / 3
# The slowest task of the engine controller has a period of 1 s.
AUTOMOTIVE_SECONDS = 3.0 if QUICK else max(100.0, SECONDS)
# Controllers in a lane, lanes.
SHAPES = ((1, 1), (4, 1), (4, 3))
PERIODS = (800, 200, 50)
SOURCE_KEYS = (270, 573, 905)
# Beyond those of In-ConcReTeS, until a node fails.
MORE_KEYS = (2000, 4000, 8000, 16000, 32000)
SCALE_KEYS = (100, 300, 905, 2000, 5000)
def cell(part, store, load, period, **more):
    basis = {"nodes": 4, "faults": 1, "lanes": 1, "tasks": 1, "keys": 0, "fault": None, "single": False, "network": False, "grows": False,
             "seconds": AUTOMOTIVE_SECONDS if load == "automotive" else SECONDS}
    return {"part": part, "store": store, "load": load, "period_ms": period, **basis, **more}


def control_cells():
    for tasks, lanes in SHAPES[1:2] if QUICK else SHAPES:
        for period in (200, 50) if QUICK else PERIODS:
            for store in ("verge", "redis", "etcd"):
                if store == "verge" or (period < 800 and tasks > 1):
                    yield cell("control", store, "control", period, tasks=tasks, lanes=lanes)
    for store in ("redis", "etcd"):
        for period in (200, 50):
            yield cell("single", store, "control", period, tasks=4, single=True)


def fault_cells():
    for fault in ("dead", "liar"):
        for store in ("verge", "redis", "etcd"):
            # Replicas write over each other in etcd: there is nothing that a lie could be told from.
            if (store, fault) != ("etcd", "liar"):
                yield cell("faults", store, "control", 50, tasks=4, fault=fault)
    for fault in ("two dead", "two liars"):
        yield cell("faults", "verge", "control", 50, tasks=4, fault=fault)


def network_cells():
    for period in (200, 50):
        for store in ("verge", "redis", "etcd"):
            yield cell("network", store, "control", period, tasks=4, network=True)
    for fault in ("dead", *WIRE_FAULTS):
        for store in ("verge", "redis", "etcd"):
            if fault != "dead" or store == "verge":
                yield cell("network", store, "control", 50, tasks=4, network=True, fault=fault)
    yield cell("network", "verge", "uniform", 50, keys=905, network=True)


def automotive_cells():
    for keys in (905,) if QUICK else SOURCE_KEYS:
        for store in ("verge", "redis", "etcd"):
            if store == "verge" or (store, keys) in (("redis", 905), ("etcd", 270)):
                yield cell("automotive", store, "automotive", 50, keys=keys)
    for fault in ("dead", "liar"):
        yield cell("automotive", "verge", "automotive", 50, keys=905, fault=fault)
    for keys in () if QUICK else MORE_KEYS:
        yield cell("automotive", "verge", "automotive", 50, keys=keys, grows=True)


def size_cells():
    for nodes, faults in ((4, 1), (7, 2)):
        for keys in (100, 905):
            # Where two processors cannot carry a job of seven nodes in 50 ms, a longer period shows what it takes.
            yield cell("keys", "verge", "uniform", 50 if nodes == 4 else 200, nodes=nodes, faults=faults, keys=keys)
    for lanes in (2,) if QUICK else (1, 2, 4):
        yield cell("lanes", "verge", "uniform", 100, lanes=lanes, keys=300)
    yield cell("reads", "verge", "automotive", 50, keys=905, seconds=SECONDS)


def cells():
    """All that are measured, in the order of the page."""
    return [*control_cells(), *fault_cells(), *network_cells(), *automotive_cells(), *size_cells()]


class Tasks:
    """The tasks of one node: a process that says when it is ready, and what came of it at the end."""

    def __init__(self, plan, store, node):
        words = [KV, "tasks", "--store", plan["store"], "--load", plan["load"], "--lanes", plan["lanes"], "--tasks", plan["tasks"],
                 "--keys", plan["keys"], "--period", f"{plan['period_ms']}ms", "--warm-up", f"{int(WARM_UP * 1000)}ms",
                 "--measure", f"{int(plan['seconds'] * 1000)}ms", *(["--may-lie"] if lies(plan, node) else []),
                 *(["--single"] if plan["single"] else [])]
        words += [word for server in store.servers(node) for word in ("--server", server)]
        self.child = subprocess.Popen([str(word) for word in [*store.inside(node), *words]], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, text=True, preexec_fn=scheduled(0))
        self.lines = queue.Queue()
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        for line in self.child.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def line(self, until):
        """What it says next."""
        try:
            line = self.lines.get(timeout=max(until - time.time(), 0.01))
        except queue.Empty:
            raise RuntimeError("tasks do not answer") from None
        if line is None:
            raise RuntimeError(f"tasks have ended: {self.child.stderr.read().strip()[-300:]}")
        return line

    def end(self):
        if self.child.poll() is None:
            self.child.kill()
        self.child.wait()
        for pipe in (self.child.stdin, self.child.stdout, self.child.stderr):
            try:
                pipe.close()
            except OSError:
                pass


def lies(plan, node):
    """Whether a node's tasks lie; the nodes of the store do it themselves."""
    return plan["store"] != "verge" and is_liar(plan, node)


def once(plan):
    """What came of a cell, or why nothing did."""
    store, tasks = None, []
    try:
        store = Store.of(plan)
        store.start()
        tasks = [Tasks(plan, store, node) for node in range(plan["nodes"])]
        until = time.time() + READY_SECONDS
        for one in tasks:
            one.line(until)
        for one in tasks:
            one.child.stdin.write("begin\n")
            one.child.stdin.flush()
        return observe(plan, store, tasks, time.time() + WARM_UP)
    except (RuntimeError, OSError) as error:
        return {"failed": str(error), "log": store.told()[-500:] if store else ""}
    finally:
        for one in tasks:
            one.end()
        if store:
            store.end()


def sleep_until(moment):
    time.sleep(max(moment - time.time(), 0))


def observe(plan, store, tasks, begin):
    """What a store and its tasks do from `begin` on."""
    sleep_until(begin)
    before = {node: store.look(node) for node in range(plan["nodes"])}
    correct = [node for node in range(plan["nodes"]) if node not in faulty(plan)]
    report = {}
    if plan["part"] == "reads":
        report["shared_memory"] = json.loads(said([KV, "reads", "--socket", store.servers(0)[0]]))
    if plan["fault"]:
        sleep_until(begin + plan["seconds"] * FAULT_AFTER)
        befall(plan, store, tasks)
    sleep_until(begin + plan["seconds"])
    after = {node: store.look(node) for node in correct}
    until = time.time() + REPORT_SECONDS
    reports = [json.loads(tasks[node].line(until)) for node in correct]
    compared, differ = compare([one.pop("digests") for one in reports])
    report["compared"], report["differ"] = compared, differ
    report["nodes"] = [{**one, **window(before[node], after[node], plan)} for node, one in zip(correct, reports)]
    return report


def befall(plan, store, tasks):
    """The fault of a cell begins."""
    if plan["fault"] in WIRE_FAULTS:
        return store.befall()
    for node in faulty(plan):
        if not is_liar(plan, node):
            store.kill(node)
            tasks[node].child.kill()
            continue
        store.lie(node)
        if lies(plan, node):
            tasks[node].child.send_signal(signal.SIGUSR1)


def window(before, after, plan):
    """What a node has used and done between two looks."""
    seconds = after["at"] - before["at"]
    jobs = seconds * 1000 / plan["period_ms"] * plan["lanes"]
    found = {"cpu_ms_per_job": (after["cpu_ns"] - before["cpu_ns"]) / 1e6 / jobs, "cpu_share": (after["cpu_ns"] - before["cpu_ns"]) / 1e9 / seconds}
    lanes = list(zip(before.get("lanes", []), after.get("lanes", [])))
    if lanes:
        sums = lambda lane: (lane["coordination_seconds"] or {"mean": 0})["mean"] * lane["jobs"]["counted"]
        counted = lambda key: sum(new["jobs"][key] - old["jobs"][key] for old, new in lanes)
        found |= {
            "jobs": counted("counted"), "complete": counted("complete"), "skipped": counted("skipped"),
            "disagreed": counted("disagreed"), "alarms": counted("alarms"),
            "late_publish": sum(new["late_publish"] - old["late_publish"] for old, new in lanes),
            "coordination_mean_ms": 1e3 * sum(sums(new) - sums(old) for old, new in lanes) / max(counted("counted"), 1),
            # Since the lane began: histograms cannot be taken from each other by their largest value.
            "coordination_p99_ms": 1e3 * max((new["coordination_seconds"] or {"p99": 0})["p99"] for _, new in lanes),
            "coordination_worst_ms": 1e3 * max((new["coordination_seconds"] or {"worst": 0})["worst"] for _, new in lanes),
        }
    return found


def compare(digests):
    """Releases at which a task has read the newest values on two nodes or more, and those at which they were not the same."""
    compared = differ = 0
    for release in set().union(*digests):
        said_by = [one[release] for one in digests if release in one]
        compared += len(said_by) > 1
        differ += len(set(said_by)) > 1
    return compared, differ


def links():
    """The core on virtual time, over links of 100 and 1000 Mbit/s, and over some on which everything fits, to count the bytes."""
    rows = []
    for megabits in (100, 1000, 1000000):
        for nodes, faults in ((4, 1), (7, 2)):
            for keys in SCALE_KEYS:
                words = ["--nodes", nodes, "--faults", faults, "--keys", keys, "--megabits", megabits, "--period", "50ms"]
                told = said([KV, "links", *[str(word) for word in words]])
                basis = {"nodes": nodes, "faults": faults, "keys": keys, "megabits": megabits}
                rows.append(json.loads(told) if told.startswith("{") else {**basis, "failed": told})
    return rows


def missing():
    """Programs that are not there, by store."""
    programs = {"verge": VERGE, "redis": REDIS, "etcd": ETCD}
    return {store: path for store, path in programs.items() if not shutil.which(path)}


def runs_of(plan):
    runs = []
    for turn in range(ROUNDS):
        for number, one in enumerate(plan):
            if one["grows"] and any(run["grows"] and fails(run["report"]) for run in runs):
                continue
            report = undisturbed(lambda: once(one))
            runs.append({**one, "round": turn, "report": report})
            print(f"round {turn + 1} of {ROUNDS}, {number + 1} of {len(plan)}: {title(one)}: {brief(report)}, "
                  f"{100 * report['stolen_share']:.1f} % stolen", file=sys.stderr, flush=True)
    return runs


def measure(chosen):
    if not shutil.which(KV) or not shutil.which(VERGE):
        sys.exit(f"there is no {KV} or no {VERGE}: cargo build --release --bin verge --bin verge-bench-kv")
    absent, parts = missing(), chosen.part or PARTS
    for store, path in absent.items():
        print(f"left out: {store}, since there is no {path} (bench/install-peers.sh)", file=sys.stderr)
    with awake():
        runs = runs_of([one for one in cells() if one["store"] not in absent and one["part"] in parts])
    versions = {"redis": said([REDIS, "--version"]), "etcd": said([ETCD, "--version"]).partition("\n")[0]}
    return {"settings": {"rounds": ROUNDS, "absent": absent, "versions": versions},
            "figures": {"runs": runs, "links": links() if "links" in parts else []}}
