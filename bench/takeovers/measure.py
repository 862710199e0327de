#!/usr/bin/env python3
"""How often a backup takes the reign of a primary that lives: beside compilers on every processor, with and without real-time rights, and on
two hosts (guests with a kernel each; crates/cli/tests/hosts) whose link loses and delays packets. Nobody dies, so every take-over is false. One
publisher for each of ten topics sends ten messages a second, and one subscriber counts what is missing and late. Writes bench/results/takeovers.md and
takeovers.json, or where RESULTS says. MINUTES is how long it compiles (default 10), SECONDS how long each link is tried (default 40);
`--quick` takes little of both. `--only NAME` (several times: several) does only these. Links need root, and what the tests on hosts need."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

from bench.rooms.common import QUICK, RESULTS, TARGET, command, commit, free_ports, machine, options, program, read_results, scheduled, to_repository, write_results

PARTS = ["compilers", "links"]
OPTIONS = options(__doc__, "quick", "page", only=PARTS)
VERGE = program("VERGE", "verge")
MINUTES = 0.3 if QUICK else float(os.environ.get("MINUTES", "10"))
SECONDS = 8 if QUICK else float(os.environ.get("SECONDS", "40"))
TOPICS = 10
PERIOD_MS = 100
SETTLE_SECONDS = 3


class Scene:
    """The processes of one run, and their folder; all of them end with it."""

    def __init__(self, hosts, ports, priority):
        self.hosts, self.ports, self.priority = hosts, ports, priority
        self.folder = tempfile.mkdtemp(prefix="verge-bench-")
        self.children = []
        with open(self.path("verge.toml"), "w") as file:
            file.write(configuration(hosts, ports, priority))

    def path(self, name):
        return os.path.join(self.folder, name)

    def start(self, words, log, urgent=0, **more):
        words = [str(word) for word in words]
        with open(self.path(log), "ab") as file:
            child = subprocess.Popen(words, stderr=file, preexec_fn=scheduled(urgent), start_new_session=True,
                                     **({"stdin": subprocess.DEVNULL, "stdout": file} | more))
        self.children.append(child)
        return child

    def verge(self, *words):
        return [VERGE, "--config", self.path("verge.toml"), *words]

    def log(self, name):
        with open(self.path(name), errors="replace") as file:
            return file.read()

    def end(self):
        for child in self.children:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def configuration(hosts, ports, priority):
    lines = ["[network]", 'failover = "100ms"', "[realtime]", f"priority = {priority}", "awake = false"]
    for name, host, (clients, pair, http) in zip("ab", hosts, ports):
        lines += [f"[brokers.{name}]", f'clients = "{host}:{clients}"', f'pair = "{host}:{pair}"', f'http = "127.0.0.1:{http}"',
                  f'start_as = "{"primary" if name == "a" else "backup"}"']
    lines += ["[[topic]]", 'filter = "t/+"', f'period = "{PERIOD_MS}ms"', 'deadline = "500ms"', "loss = 0", "retain = 20"]
    return "\n".join(lines) + "\n"


def status(scene):
    told = subprocess.run(scene.verge("status", "--format", "json"), capture_output=True, text=True)
    try:
        return json.loads(told.stdout)
    except ValueError:
        return {}


def brokers_of(report):
    return report.get("brokers", [])


def wait_protected(scene):
    for _ in range(150):
        brokers = brokers_of(status(scene))
        if len(brokers) == 2 and all(broker.get("protected") for broker in brokers):
            return max(broker["epoch"] for broker in brokers)
        time.sleep(0.2)
    sys.exit(f"the pair is not protected: {scene.log('a.log')}{scene.log('b.log')}")


def play(scene, seconds, busy=None):
    """Runs a pair with its load for so long; returns what came of it."""
    for name in "ab":
        scene.start(scene.verge("broker", name, "--insecure"), f"{name}.log")
    before = wait_protected(scene)
    count = int(seconds * 1000 / PERIOD_MS)
    heard = scene.start(scene.verge("sub", "-t", "t/#", "--format", "json"), "sub.err",
                        stdout=open(scene.path("sub.out"), "wb"))
    time.sleep(0.5)
    sends = [scene.start(scene.verge("pub", "-t", f"t/{topic}", "-m", "0123456789abcdef", "--repeat", count), f"pub{topic}.log")
             for topic in range(TOPICS)]
    others = busy(scene) if busy else []
    for child in sends:
        child.wait(timeout=seconds + 60)
    for child in others:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    time.sleep(SETTLE_SECONDS)
    brokers = brokers_of(status(scene))
    after = max((broker["epoch"] for broker in brokers), default=before)
    # A process that was started in the background may have been told to ignore SIGINT.
    heard.send_signal(signal.SIGTERM)
    heard.wait(timeout=10)
    rows = [json.loads(line) for line in scene.log("sub.out").splitlines() if line.startswith("{")]
    came = {(row.get("topic"), row.get("seq")) for row in rows if "seq" in row}
    late = sum(1 for row in rows if row.get("late"))
    patience = max((broker.get("counters", broker).get("pair_patience_us", 0) for broker in brokers), default=0) / 1000
    return {"takeovers": after - before, "sent": count * TOPICS, "missing": count * TOPICS - len(came), "late": late, "patience_ms": patience}


def compile_for_ever(scene):
    """Two compilers for each processor, again and again."""
    source = scene.path("busy.c")
    with open(source, "w") as file:
        for number in range(3000):
            file.write(f"int f{number}(int x) {{ int s = 0; for (int i = 0; i < x; i++) s += (i * {number}) ^ (s >> 3); return s; }}\n")
    loop = f"while :; do cc -O3 -funroll-loops -c {source} -o /dev/null; done"
    return [scene.start(["sh", "-c", loop], "cc.log") for _ in range(2 * os.cpu_count())]


def compilers():
    """Both at once: one pair with rights, one without, each with compilers of its own."""
    def one(priority):
        ports = free_ports(6)
        scene = Scene(["127.0.0.1"] * 2, [ports[:3], ports[3:]], priority)
        try:
            row = play(scene, MINUTES * 60, compile_for_ever)
        finally:
            scene.end()
        row = {"rights": priority > 0, "minutes": MINUTES} | row
        print(row, file=sys.stderr, flush=True)
        return row

    with ThreadPoolExecutor() as pool:
        return list(pool.map(one, [50, 0]))


def links():
    """On guests with a kernel each, where they can run: this kernel need not know netem."""
    with tempfile.TemporaryDirectory(prefix="verge-bench-") as folder:
        file = os.path.join(folder, "links")
        words = ["cargo", "test", "-p", "verge-cli", "--test", "hosts", "--", "--ignored", "--exact", "links::how_often_links_move_the_reign"]
        subprocess.run(words, check=True, env=os.environ | {"VERGE_RESULTS": file, "SECONDS": str(int(SECONDS))})
        if not os.path.exists(file):
            print("SKIPPED links: guests cannot run here", file=sys.stderr)
            return []
        with open(file) as lines:
            return [json.loads(line) for line in lines]


def page(results):
    lines = ["# Take-overs from a primary that lives", "",
             f"Machine: {results['machine']}.", "",
             f"Nobody dies, so every take-over is false. {TOPICS} topics with a message every {PERIOD_MS} ms, no loss tolerated, deadline 500 ms, from "
             "one publisher for each to one subscriber, both beside broker `a`. Defaults, but for `network.failover` of 100 ms. *Patience* is how long silence "
             "was borne in the end.", ""]
    made = lambda name: f"Command: `{results['by'][name]['command']}`. Commit {results['by'][name]['commit']}."
    if results.get("compilers"):
        lines += ["## Compilers on every processor", "", made("compilers") + " Two pairs on one host at once, one with and one without rights, each with its clients and with two compilers for each processor.", "",
                  "| real-time rights | minutes | false take-overs | messages | missing | late | patience ms |", "|---|---|---|---|---|---|---|"]
        lines += [f"| {'yes' if row['rights'] else 'no'} | {row['minutes']:g} | {row['takeovers']} | {row['sent']:,} | {row['missing']} | {row['late']} | "
                  f"{row['patience_ms']:.0f} |" for row in results["compilers"]]
        lines += ["", "Target: 0 with rights, at most 1 without, in 10 minutes."]
    if results.get("links"):
        lines += ["", "## A link that loses and delays", "", made("links") + " The brokers on two guests with a kernel each, a publisher and a subscriber on two others; `netem` on all that brokers send, to clients as "
                  "well. One topic with a message every 40 ms, deadline 500 ms, no loss tolerated, unoptimized build, ordinary scheduling, defaults but for "
                  "`network.failover` of 100 ms.", "",
                  "| loss % | delay ms | seconds | false take-overs | messages | missing | late |", "|---|---|---|---|---|---|---|"]
        lines += [f"| {row['loss']:g} | {row['delay']} ± {row['off']} | {row['seconds']:g} | {row['takeovers']} | {row['sent']:,} | {row['missing']} | {row['late']} |"
                  for row in results["links"]]
        lines += ["", "Target: 0 up to 1 % of loss."]
    return "\n".join(lines) + "\n"


def main():
    to_repository()
    # What is not measured now stays as it was, with the command and the commit by which it was.
    known = os.path.exists(os.path.join(RESULTS, "takeovers.json"))
    results = read_results("takeovers.json") if known or OPTIONS.page else {"by": {}}
    if not OPTIONS.page:
        for name, measure in [("compilers", compilers), ("links", links)]:
            if not OPTIONS.only or name in OPTIONS.only:
                results[name] = measure()
                results["by"][name] = {"command": command("MINUTES", "SECONDS"), "commit": commit()}
        results["machine"] = machine()
    write_results({"takeovers.json": json.dumps(results, indent=1) + "\n", "takeovers.md": page(results)})


if __name__ == "__main__":
    main()
