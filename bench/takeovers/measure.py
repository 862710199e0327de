"""How often a backup takes the reign of a primary that lives: beside compilers on every processor, with and without real-time rights, and on
two hosts (guests with a kernel each; crates/cli/tests/hosts) whose link loses and delays packets. Nobody dies, so every takeover is false. One
publisher for each of ten topics sends ten messages a second, and one subscriber counts what is missing and late. MINUTES is how long it
compiles (default 10), SECONDS how long each link is tried (default 40); `--quick` takes little of both. `--only NAME` (several times: several)
does only these, and keeps the others as they were. Links need root, and what the tests on hosts need."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

from bench.rooms import document
from bench.rooms.code import BROKER
from bench.rooms.options import QUICK, program
from bench.rooms.processes import free_ports, scheduled

ABOUT = "takeovers from a primary that lives, beside compilers and on a link that loses"
PROGRAMS = ["verge"]
CODE = BROKER
VARIABLES = ("MINUTES", "SECONDS")
PARTS = ["compilers", "links"]
SWITCHES, SEVERAL = (), {"only": PARTS}
OTHERS = UNTHROTTLED = False

VERGE = program("VERGE", "verge")
MINUTES = float(os.environ.get("MINUTES", "0.3" if QUICK else "10"))
SECONDS = float(os.environ.get("SECONDS", "8" if QUICK else "40"))
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


def measure(chosen):
    by, parts = document.commit(), chosen.only or PARTS
    # What is not measured now stays as it was, with the commit by which it was.
    kept = document.kept_runs("takeovers") if set(parts) != set(PARTS) else []
    runs = [row for row in kept if row["part"] not in parts]
    for part in parts:
        act = {"compilers": compilers, "links": links}[part]
        runs += [{"part": part, "commit": by, "report": report} for report in act()]
    return {"settings": {"topics": TOPICS, "period_ms": PERIOD_MS}, "figures": {"runs": runs}}
