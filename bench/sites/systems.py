"""Verge, NATS and Zenoh, each with two sites and routers between them."""

import json
import os
import shutil
import sys
import time

from bench.rooms.options import TARGET, program
from bench.sites.scene import APART, NORTH, ROUTER, SOUTH, wait

VERGE, LOAD = program("VERGE", "verge"), program("PEERS", "verge-bench-peers")
NATS = os.environ.get("NATS", "/usr/sbin/nats-server")
ZENOH = os.environ.get("ZENOH", f"{os.environ.get('CARGO_TARGET_DIR', 'bench/peers/zenoh/target')}/release/verge-bench-zenoh")
JARS = os.path.join(TARGET, "zookeeper", "jars")
SESSION_SECONDS = 5
SERVICE, MQTT = APART + 90, APART + 80
SITES = {"north": NORTH, "south": SOUTH}


class System:
    """`routers` has their processes, by name; `sites` those of sites."""

    environment = {}
    load = LOAD
    missed = None

    def __init__(self, scene):
        self.scene, self.routers, self.sites = scene, {}, {}

    def clients(self, place):
        return self.scene.address(place)


class Verge(System):
    name, protocol, missed = "verge", "verge", "$backlog"

    def __init__(self, scene, routers=("r1",), brokers="a", coordinated=False, kept="", retain=200, mqtt=False):
        super().__init__(scene)
        self.brokers, self.service, self.mqtt = brokers, "", mqtt
        if coordinated:
            start_service(scene)
            self.service = f'[coordination]\nservers = ["{scene.address(ROUTER, SERVICE)}"]\nsession = "{SESSION_SECONDS}s"\n'
        for number, name in enumerate(routers):
            self.router(name, number)
        known = "" if coordinated else f'[routers.r1]\naddress = "{scene.address(ROUTER)}"\n'
        if len(brokers) > 1:
            known += f'partner = "{scene.address(ROUTER, 1)}"\n'
        for name, place in SITES.items():
            journal = f'journal = "{scene.path(f"journal-{name}")}"\n' if kept else ""
            wide = '[link.cloud]\nbroker_to_subscriber = "45ms"\n' if scene.hosts else ""
            self.write(name, place, 0, "a", f'{wide}{self.service}[site]\nname = "{name}"\n{journal}{known}[uplink]\nretain = {retain}\n{kept}')
            self.sites[name] = self.broker(name, place, "a")
        self.is_joined(["knows it by its name" if coordinated else "is reached"])

    def is_joined(self, words):
        for name in SITES:
            wait(lambda: all(word in self.scene.log(f"{name}.a.log") for word in words), 30, lambda: self.scene.log(f"{name}.a.log"))

    def router(self, name, number):
        self.write(name, ROUTER, 10 * number, self.brokers, f'{self.service}[router]\nname = "{name}"\n' if self.service else "")
        for broker in self.brokers:
            self.routers[f"{name}.{broker}"] = self.broker(name, ROUTER, broker)

    def write(self, file, place, number, brokers, more):
        wide = ["[network]", 'failover = "150ms"'] if len(brokers) > 1 else []
        lines = list(wide)
        for index, name in enumerate(brokers):
            clients, pair = (self.scene.address(place, number + apart + index) for apart in (0, APART))
            lines += [f"[brokers.{name}]", f'clients = "{clients}"', f'pair = "{pair}"', f'start_as = "{"primary" if index == 0 else "backup"}"']
            lines += [f'mqtt = "{self.scene.address(place, MQTT)}"'] if self.mqtt and place in SITES.values() else []
        self.scene.write(f"{file}.toml", "\n".join([*lines, more]) + "\n")

    def broker(self, file, place, name="a"):
        """A broker of a configuration, once it listens."""
        log = f"{file}.{name}.log"
        seen = self.scene.log(log).count("clients at")
        child = self.scene.start(place, [VERGE, "--config", self.scene.path(f"{file}.toml"), "broker", name, "--insecure"], log)
        wait(lambda: self.scene.log(log).count("clients at") > seen, 20, lambda: self.scene.log(log))
        return child

    def ask(self, file, place, *words):
        return self.scene.run(place, VERGE, "--config", self.scene.path(f"{file}.toml"), *words)


class VergeOnPaths(Verge):
    """With a router beside the receiving site (`direct`), one elsewhere (`around`), or both at once."""

    PLACES = {"direct": (SOUTH, 10), "around": (ROUTER, 0)}

    mqtt = False

    def __init__(self, scene, paths, period_ms, retain):
        System.__init__(self, scene)
        known = '[link.cloud]\nbroker_to_subscriber = "600ms"\n'
        for name in paths:
            place, number = self.PLACES[name]
            self.write(name, place, number, "a", known)
            self.routers[name] = self.broker(name, place)
        known += "".join(f'[routers.{name}]\naddress = "{scene.address(*self.PLACES[name])}"\n' for name in paths)
        topic = f'[[topic]]\nfilter = "t/#"\nperiod = "{period_ms}ms"\ndeadline = "1s"\nretain = {retain}\npaths = {len(paths)}\n'
        for name, place in SITES.items():
            self.write(name, place, 0, "a", f'{known}[site]\nname = "{name}"\n[uplink]\nretain = {retain}\n{topic}')
            self.sites[name] = self.broker(name, place, "a")
        self.is_joined([f"the router {name} is reached" for name in paths])


def start_service(scene):
    os.makedirs(scene.path("service"), exist_ok=True)
    settings = scene.write("zoo.cfg", f"tickTime=250\ndataDir={scene.path('service')}\nclientPortAddress={scene.address(ROUTER, SERVICE).split(':')[0]}\n"
                           f"clientPort={scene.address(ROUTER, SERVICE).split(':')[1]}\nadmin.enableServer=false\nmaxClientCnxns=0\n4lw.commands.whitelist=mntr\n")
    words = ["java", "-Xmx256m", "-cp", f"{os.path.abspath(JARS)}/*", "org.apache.zookeeper.server.quorum.QuorumPeerMain", settings]
    scene.start(ROUTER, words, "service.log")
    wait(lambda: scene.listens(ROUTER, SERVICE), 30, lambda: scene.log("service.log"))
    time.sleep(1)


def can_be_coordinated():
    there = shutil.which("java") and os.path.exists(os.path.join(JARS, "whole"))
    if not there:
        print("SKIPPED: no Java, or no jars of ZooKeeper (cargo test -p verge-coordination fetches them)", file=sys.stderr)
    return there


class Nats(System):
    """Leaf nodes, and servers of one cluster as routers. What it is told nothing of is as it comes, but that both sites try the first router first."""

    name, protocol = "nats", "nats"
    LEAVES, CLUSTER = APART, APART + 5

    def __init__(self, scene, routers=("r1",), kept=False):
        super().__init__(scene)
        leaves = [scene.address(ROUTER, self.LEAVES + number) for number in range(len(routers))]
        for number, name in enumerate(routers):
            others = [f'"nats://{scene.address(ROUTER, self.CLUSTER + other)}"' for other in range(len(routers)) if other != number]
            cluster = f'cluster {{ name: hub, listen: "{scene.address(ROUTER, self.CLUSTER + number)}", routes: [{", ".join(others)}] }}\n' if others else ""
            self.routers[name] = self.server(name, ROUTER, number, f'leafnodes {{ listen: "{leaves[number]}" }}\n{cluster}')
        for name, place in SITES.items():
            urls = ", ".join(f'"nats-leaf://{leaf}"' for leaf in leaves)
            store = f'jetstream {{ store_dir: "{scene.path(f"store-{name}")}", domain: {name} }}\n' if kept else ""
            self.sites[name] = self.server(name, place, 0, f"{store}leafnodes {{ remotes: [ {{ urls: [{urls}], no_randomize: true }} ] }}\n")
        for name in SITES:
            wait(lambda: "Leafnode connection created" in scene.log(f"{name}.log"), 20, lambda: scene.log(f"{name}.log"))
        time.sleep(1)

    def server(self, name, place, number, more):
        with open("bench/peers/config/nats.conf") as file:
            # What has become of leaf connections stands in the log.
            settings = self.scene.write(f"{name}.conf", f'{file.read()}server_name: {name}\nlisten: "{self.scene.address(place, number)}"\n{more}')
        child = self.scene.start(place, [NATS, "-c", settings], f"{name}.log")
        wait(lambda: self.scene.listens(place, number), 20, lambda: self.scene.log(f"{name}.log"))
        return child


class NatsKept(Nats):
    """With a stream of JetStream at the northern site, which one at the southern site copies; what is copied is published there below `copy`."""

    name = "nats-jetstream"
    topics = "copy/t"

    def __init__(self, scene, routers=("r1",)):
        super().__init__(scene, routers, kept=True)
        self.create("north", {"name": "KEPT", "subjects": ["t.*"], "storage": "file"})
        source = {"name": "KEPT", "external": {"api": "$JS.north.API", "deliver": ""}}
        self.create("south", {"name": "COPY", "storage": "file", "sources": [source], "republish": {"src": "t.*", "dest": "copy.t.{{wildcard(1)}}"}})

    def create(self, site, settings):
        code = (f"import json, socket\ns = socket.create_connection({tuple(self.clients(SITES[site]).split(':'))!r}, 5)\n"
                f"body = json.dumps({settings!r}).encode()\n"
                "s.sendall(b'CONNECT {\"verbose\":false}\\r\\nSUB answer 1\\r\\n')\n"
                f"s.sendall(b'PUB $JS.API.STREAM.CREATE.{settings['name']} answer ' + str(len(body)).encode() + b'\\r\\n' + body + b'\\r\\n')\n"
                "got = b''\nwhile b'MSG answer' not in got or not got.endswith(b'}\\r\\n'): got += s.recv(9999)\nprint(got.decode())")
        done = self.scene.run(SITES[site], "timeout", 10, "python3", "-c", code)
        if '"error"' in done.stdout or done.returncode:
            sys.exit(f"no stream at {site}: {done.stdout} {done.stderr}")


class Zenoh(System):
    """Routers at sites and between them."""

    name, protocol, load = "zenoh", "zenoh", ZENOH
    environment = {"ZENOH_BATCHING_MS": "0"}

    def __init__(self, scene, routers=("r1",)):
        super().__init__(scene)
        for number, name in enumerate(routers):
            self.routers[name] = self.router(name, ROUTER, number, [scene.address(ROUTER, other) for other in range(number)])
        for name, place in SITES.items():
            self.sites[name] = self.router(name, place, 0, [scene.address(ROUTER, number) for number in range(len(routers))])
        time.sleep(3)

    def router(self, name, place, number, connects):
        with open("bench/peers/config/zenoh-router.json5") as file:
            to = json.dumps([f"tcp/{address}" for address in connects])
            settings = self.scene.write(f"{name}.json5", file.read().rstrip().removesuffix("}") + f"  connect: {{ endpoints: {to} }},\n}}\n")
        words = [ZENOH, "router", "--config", settings, "--listen", self.scene.address(place, number)]
        child = self.scene.start(place, words, f"{name}.log", env=os.environ | self.environment)
        wait(lambda: self.scene.listens(place, number), 20, lambda: self.scene.log(f"{name}.log"))
        return child


def others():
    """Those that are there, beside Verge."""
    there = [kind for kind, program in ((Nats, NATS), (Zenoh, ZENOH)) if os.access(program, os.X_OK)]
    for kind in (Nats, Zenoh):
        if kind not in there:
            print(f"SKIPPED: {kind.name} is not there (NATS and ZENOH are the programs)", file=sys.stderr)
    return there
