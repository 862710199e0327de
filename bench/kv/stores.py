"""The stores that are measured: four or seven nodes each, as processes on this host."""

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

from bench.rooms.hosts import Hosts
from bench.rooms.options import program
from bench.rooms.processes import free_ports, scheduled

VERGE = program("VERGE", "verge")
REDIS = os.environ.get("REDIS", "/usr/bin/redis-server")
ETCD = os.environ.get("ETCD", "/usr/bin/etcd")
# Of the servers under SCHED_FIFO, as the store's lanes have it; tasks have more.
PRIORITY = 1
START_SECONDS = 20
# Threads of etcd's runtime wait for each other by turning, so under SCHED_FIFO they starve each other and all else: ordinary scheduling, most
# favoured.
NICENESS = -20
# What tasks may take before the store's job: a millisecond each in In-ConcReTeS, and as much where one does the work of four.
OFFSET_MS = 4
NUMBERS = 19
# On hosts of their own.
PORTS_FROM = 7100
# What befalls what a host sends; the rest befalls the node.
WIRE_FAULTS = ("late", "lossy", "corrupt")
# How many nodes each fault takes, the last ones.
FAULTY = {None: 0, "dead": 1, "liar": 1, "two dead": 2, "two liars": 2, **{fault: 1 for fault in WIRE_FAULTS}}


def faulty(plan):
    return range(plan["nodes"] - FAULTY[plan["fault"]], plan["nodes"])


def is_liar(plan, node):
    return plan["fault"] in ("liar", "two liars") and node in faulty(plan)


class Store:
    """Nodes of a store, which begin with `start` and are gone after `end`."""

    @staticmethod
    def of(plan):
        return {"verge": Verge, "redis": Redis, "etcd": Etcd}[plan["store"]](plan)

    def __init__(self, plan):
        self.plan, self.count = plan, plan["nodes"]
        fault = plan["fault"] if plan["fault"] in WIRE_FAULTS else None
        self.wire = Hosts(plan["nodes"], fault) if plan["network"] else None
        # In memory: what etcd syncs to disk would be the disk's time.
        self.folder = tempfile.mkdtemp(prefix="verge-bench-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        self.path = lambda file: os.path.join(self.folder, file)
        self.log = open(self.path("log"), "wb")
        # Processes of each node.
        self.children = [[] for _ in range(self.count)]

    def inside(self, node):
        """The words before a command that run it on a node's host."""
        return self.wire.inside(node) if self.wire else []

    def address(self, node):
        return self.wire.address(node) if self.wire else "127.0.0.1"

    def ports(self, count):
        """Nobody else listens where hosts are new."""
        return list(range(PORTS_FROM, PORTS_FROM + count)) if self.wire else free_ports(count)

    def spawn(self, node, words, schedule=scheduled(PRIORITY)):
        child = subprocess.Popen([str(word) for word in [*self.inside(node), *words]], stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
                                 preexec_fn=schedule)
        self.children[node].append(child)

    def wait(self, is_there):
        until = time.monotonic() + START_SECONDS
        while not is_there():
            gone = any(child.poll() is not None for children in self.children for child in children)
            if gone or time.monotonic() > until:
                raise RuntimeError(f"{self.plan['store']} does not start: {self.told()[-300:]}")
            time.sleep(0.02)

    def look(self, node):
        """Processor time of a node's processes, and when."""
        return {"at": time.time(), "cpu_ns": sum(processor_ns(child.pid) for child in self.children[node])}

    def kill(self, node):
        for child in self.children[node]:
            child.send_signal(signal.SIGKILL)

    def lie(self, node):
        """Nothing where tasks do it."""

    def befall(self):
        """The wire's fault begins."""
        self.wire.child.send_signal(signal.SIGUSR1)

    def told(self):
        with open(self.path("log"), errors="replace") as file:
            return file.read().strip()

    def end(self):
        for children in self.children:
            for child in children:
                if child.poll() is None:
                    child.kill()
                child.wait()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.wire:
            self.wire.end()


class Verge(Store):
    """`verge kv node`, one process for each node with all its lanes."""

    def start(self):
        if self.wire:
            self.write("keyless.toml", self.configuration(secret=False))
            done = subprocess.run([VERGE, "--config", self.path("keyless.toml"), "kv", "secrets", self.path("secrets")],
                                  stdout=self.log, stderr=self.log)
            if done.returncode:
                raise RuntimeError(f"no keys: {self.told()[-300:]}")
        self.write("verge.toml", self.configuration())
        for node in range(self.count):
            liar = is_liar(self.plan, node)
            self.spawn(node, [VERGE, "--config", self.path("verge.toml"), "kv", "node", f"n{node}", *(["--may-lie"] if liar else [])],
                       scheduled(0))
        self.wait(lambda: all(os.path.exists(self.socket(node)) for node in range(self.count)))

    def write(self, name, text):
        with open(self.path(name), "w") as file:
            file.write(text)

    def socket(self, node):
        return self.path(f"n{node}.sock")

    def servers(self, node):
        return [self.socket(node)]

    def configuration(self, secret=True):
        plan = self.plan
        lines = ["[kv]", f"faults = {plan['faults']}"]
        for node, port in enumerate(self.ports(self.count)):
            lines += [f"[kv.nodes.n{node}]", f'address = "{self.address(node)}:{port}"', f'socket = "{self.socket(node)}"']
            # On several hosts links have keys.
            keys = self.path(f"secrets/n{node}.kv-keys")
            lines += [f'secrets = "{keys}"'] if self.wire and secret else []
        if plan["load"] == "control":
            keys = [f"p{task}/{{0..{NUMBERS - 1}}}" for task in range(plan["tasks"])]
        else:
            keys = [f"k/{{0..{plan['keys'] - 1}}}"]
        slowest = plan["period_ms"] * (20 if plan["load"] == "automotive" else 1)
        for _ in range(plan["lanes"]):
            lines += ["[[lane]]", f"keys = {json.dumps(keys)}", f'period = "{plan["period_ms"]}ms"', f'slowest = "{slowest}ms"']
        if plan["load"] == "control":
            lines += ["[[vote]]", 'filter = "#"', 'vote = "median f64"']
        tasks = plan["tasks"] if plan["load"] == "control" else 1
        for lane in range(plan["lanes"]):
            for task in range(tasks):
                cost = 1 if plan["load"] == "control" else OFFSET_MS
                lines += ["[[task]]", f'name = "t{lane}-{task}"', f"lane = {lane}", f'period = "{plan["period_ms"]}ms"', f'cost = "{cost}ms"']
        return "\n".join(lines) + "\n"

    def look(self, node):
        found = super().look(node)
        with socket.socket(socket.AF_UNIX) as asking:
            asking.settimeout(5)
            asking.connect(self.socket(node))
            asking.sendall(b'{"status":{}}\n')
            found["lanes"] = json.loads(asking.makefile().readline())["status"]["lanes"]
        return found

    def lie(self, node):
        self.children[node][0].send_signal(signal.SIGUSR1)


class Redis(Store):
    """An instance for each node and lane, in memory."""

    def start(self):
        ports = self.ports(self.count * self.plan["lanes"])
        self.ports = [ports[node::self.count] for node in range(self.count)]
        for node, mine in enumerate(self.ports):
            for port in mine:
                self.spawn(node, [REDIS, "--port", port, "--bind", self.address(node), "--protected-mode", "no", "--save", "", "--appendonly", "no", "--dir", self.folder,
                                  "--loglevel", "warning"])
        self.wait(lambda: all(listens(self.address(node), port) for node, mine in enumerate(self.ports) for port in mine))

    def servers(self, node):
        order = [node, *[other for other in range(self.count) if other != node]]
        return [",".join(f"{self.address(one)}:{self.ports[one][lane]}" for one in order) for lane in range(self.plan["lanes"])]


class Etcd(Store):
    """One cluster, with a member for each node; its log is in memory too."""

    def start(self):
        ports = self.ports(2 * self.count)
        self.clients, peers = ports[:self.count], ports[self.count:]
        cluster = ",".join(f"n{node}=http://{self.address(node)}:{port}" for node, port in enumerate(peers))
        for node, (client, peer) in enumerate(zip(self.clients, peers)):
            client, peer = f"http://{self.address(node)}:{client}", f"http://{self.address(node)}:{peer}"
            self.spawn(node, [ETCD, "--name", f"n{node}", "--data-dir", self.path(f"n{node}"), "--listen-client-urls", client,
                              "--advertise-client-urls", client, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                              "--initial-cluster", cluster, "--max-txn-ops", 10000, "--logger", "zap", "--log-level", "error"], favoured)
        self.wait(lambda: all(is_healthy(self.address(node), port) for node, port in enumerate(self.clients)))

    def servers(self, node):
        return [f"{self.address(node)}:{self.clients[node]}"]


def favoured():
    """For a child: before all others of ordinary scheduling, where the host allows it."""
    try:
        os.setpriority(os.PRIO_PROCESS, 0, NICENESS)
    except PermissionError:
        pass


def listens(address, port):
    try:
        socket.create_connection((address, port), timeout=1).close()
        return True
    except OSError:
        return False


def is_healthy(address, port):
    try:
        with urllib.request.urlopen(f"http://{address}:{port}/health", timeout=2) as answer:
            return json.load(answer).get("health") == "true"
    except (urllib.error.URLError, OSError, ValueError):
        return False


def processor_ns(pid):
    """Processor time of all threads of a process that are there, in nanoseconds."""
    total = 0
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/schedstat") as file:
                total += int(file.read().split()[0])
    except OSError:
        pass
    return total
