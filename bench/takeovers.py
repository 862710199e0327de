#!/usr/bin/env python3
"""How often a backup takes the reign of a primary that lives: beside compilers on every processor, with and without real-time rights, and on
two hosts (network namespaces of this one) whose link loses and delays packets. Nobody dies, so every take-over is false. One publisher
sends ten messages of 50 ms a second and topic, and one subscriber counts what is missing and late. Writes bench/results/takeovers.md and
takeovers.json, or where RESULTS says. MINUTES is how long it compiles (default 10), SECONDS how long each link is tried (default 40);
`--quick` takes little of both. `--only NAME` (several times: several) does only these. Links need root."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from common import QUICK, TARGET, command, commit, free_ports, machine, options, program, read_results, scheduled, to_repository, write_results

PARTS = ["compilers", "links"]
OPTIONS = options(__doc__, "quick", "page", only=PARTS)
VERGE = program("VERGE", "verge")
MINUTES = 0.3 if QUICK else float(os.environ.get("MINUTES", "10"))
SECONDS = 8 if QUICK else float(os.environ.get("SECONDS", "40"))
# Loss in percent, delay in milliseconds, and by how much it may be off, in each direction.
LINKS = [(loss, delay, off) for delay, off in [(0, 0), (3, 2), (10, 5)] for loss in [0, 0.1, 1, 3]]
TOPICS = 10
PERIOD_MS = 100
SPACES = ["verge-to-a", "verge-to-b"]
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

    def start(self, words, log, space=None, urgent=0, **more):
        words = (["ip", "netns", "exec", space] if space else []) + [str(word) for word in words]
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


def status(scene, space):
    words = (["ip", "netns", "exec", space] if space else []) + scene.verge("status", "--format", "json")
    told = subprocess.run(words, capture_output=True, text=True)
    try:
        return json.loads(told.stdout)
    except ValueError:
        return {}


def brokers_of(report):
    return report.get("brokers", [])


def wait_protected(scene, space):
    for _ in range(150):
        brokers = brokers_of(status(scene, space))
        if len(brokers) == 2 and all(broker.get("protected") for broker in brokers):
            return max(broker["epoch"] for broker in brokers)
        time.sleep(0.2)
    sys.exit(f"the pair is not protected: {scene.log('a.log')}{scene.log('b.log')}")


def play(scene, spaces, seconds, busy=None):
    """Runs a pair with its load for so long; returns what came of it."""
    for name, space in zip("ab", spaces):
        scene.start(scene.verge("broker", name, "--insecure"), f"{name}.log", space)
    before = wait_protected(scene, spaces[0])
    count = int(seconds * 1000 / PERIOD_MS)
    heard = scene.start(scene.verge("sub", "-t", "t/#", "--format", "json"), "sub.err", spaces[0],
                        stdout=open(scene.path("sub.out"), "wb"))
    time.sleep(0.5)
    sends = [scene.start(scene.verge("pub", "-t", f"t/{topic}", "-m", "0123456789abcdef", "--repeat", count), f"pub{topic}.log", spaces[0])
             for topic in range(TOPICS)]
    others = busy(scene) if busy else []
    for child in sends:
        child.wait(timeout=seconds + 60)
    for child in others:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    time.sleep(SETTLE_SECONDS)
    brokers = brokers_of(status(scene, spaces[0]))
    after = max((broker["epoch"] for broker in brokers), default=before)
    heard.send_signal(signal.SIGINT)
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
    rows = []
    for priority in [50, 0]:
        ports = free_ports(6)
        scene = Scene(["127.0.0.1"] * 2, [ports[:3], ports[3:]], priority)
        try:
            row = play(scene, [None, None], MINUTES * 60, compile_for_ever)
        finally:
            scene.end()
        rows.append({"rights": priority > 0, "minutes": MINUTES} | row)
        print(rows[-1], file=sys.stderr)
    return rows


def must(*words):
    subprocess.run(words, check=True, capture_output=True)


def separate():
    join()
    for space in SPACES:
        must("ip", "netns", "add", space)
        must("ip", "-n", space, "link", "set", "lo", "up")
    must("ip", "link", "add", "verge-a", "netns", SPACES[0], "type", "veth", "peer", "name", "verge-b", "netns", SPACES[1])
    for space, end, host in zip(SPACES, ["verge-a", "verge-b"], [1, 2]):
        must("ip", "-n", space, "address", "add", f"10.77.0.{host}/24", "dev", end)
        must("ip", "-n", space, "link", "set", end, "up")


def join():
    for space in SPACES:
        subprocess.run(["ip", "netns", "del", space], capture_output=True)


def links():
    if os.geteuid() != 0:
        print("SKIPPED links: they need root", file=sys.stderr)
        return []
    rows = []
    separate()
    try:
        probe = ["ip", "netns", "exec", SPACES[0], "tc", "qdisc", "add", "dev", "verge-a", "root", "netem", "delay", "1ms"]
        if subprocess.run(probe, capture_output=True).returncode != 0:
            print("SKIPPED links: this kernel has no netem; crates/cli/tests/hosts tries them on guests", file=sys.stderr)
            return []
        for loss, delay, off in LINKS:
            for space, end in zip(SPACES, ["verge-a", "verge-b"]):
                subprocess.run(["ip", "netns", "exec", space, "tc", "qdisc", "del", "dev", end, "root"], capture_output=True)
                if loss or delay:
                    must("ip", "netns", "exec", space, "tc", "qdisc", "add", "dev", end, "root", "netem", "limit", "10000",
                         "delay", f"{delay}ms", f"{off}ms", "loss", f"{loss}%")
            scene = Scene(["10.77.0.1", "10.77.0.2"], [(7571, 7573, 7570), (7571, 7573, 7580)], 50)
            try:
                row = play(scene, SPACES, SECONDS)
            finally:
                scene.end()
            rows.append({"loss": loss, "delay": delay, "off": off, "seconds": SECONDS} | row)
            print(rows[-1], file=sys.stderr)
    finally:
        join()
    return rows


def page(results):
    lines = ["# Take-overs from a primary that lives", "",
             f"Command: `{results['command']}`. Commit {results['commit']}. Machine: {results['machine']}.", "",
             f"Nobody dies, so every take-over is false. {TOPICS} topics with a message every {PERIOD_MS} ms, no loss tolerated, deadline 500 ms, from "
             "one publisher for each to one subscriber, both beside broker `a`. Defaults, but for `network.failover` of 100 ms. *Patience* is how long silence "
             "was borne in the end.", ""]
    if results.get("compilers"):
        lines += ["## Compilers on every processor", "", "Both brokers, all clients and two compilers for each processor on one host.", "",
                  "| real-time rights | minutes | false take-overs | messages | missing | late | patience ms |", "|---|---|---|---|---|---|---|"]
        lines += [f"| {'yes' if row['rights'] else 'no'} | {row['minutes']:g} | {row['takeovers']} | {row['sent']:,} | {row['missing']} | {row['late']} | "
                  f"{row['patience_ms']:.0f} |" for row in results["compilers"]]
        lines += ["", "Target: 0 with rights, at most 1 without, in 10 minutes."]
    if results.get("links"):
        lines += ["", "## A link that loses and delays", "", "Two hosts (network namespaces), `netem` in each direction.", "",
                  "| loss % | delay ms | seconds | false take-overs | messages | missing | late | patience ms |", "|---|---|---|---|---|---|---|---|"]
        lines += [f"| {row['loss']:g} | {row['delay']} ± {row['off']} | {row['seconds']:g} | {row['takeovers']} | {row['sent']:,} | {row['missing']} | {row['late']} | "
                  f"{row['patience_ms']:.0f} |" for row in results["links"]]
        lines += ["", "Target: 0 up to 1 % of loss."]
    return "\n".join(lines) + "\n"


def main():
    to_repository()
    results = read_results("takeovers.json") if OPTIONS.page else {"command": command("MINUTES", "SECONDS"), "commit": commit(), "machine": machine()}
    if not OPTIONS.page:
        for name, measure in [("compilers", compilers), ("links", links)]:
            if not OPTIONS.only or name in OPTIONS.only:
                results[name] = measure()
    write_results({"takeovers.json": json.dumps(results, indent=1) + "\n", "takeovers.md": page(results)})


if __name__ == "__main__":
    main()
