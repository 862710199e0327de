"""How long many sites take to join over ZooKeeper, all at once: what a request takes, when all ways are open, and how many nodes and watches there are then. Sites
and routers are the shipped cores with a session of their own, in one process beside the server. Needs Java, and the jars of ZooKeeper that
`cargo test -p verge-coordination` fetches. RUNS is how often each size is done (3). `--quick`: once, and the least and the most alone."""

import json
import os
import socket
import subprocess
import sys

from bench.rooms.code import BROKER
from bench.rooms.noise import undisturbed
from bench.rooms.options import QUICK, program
from bench.sites.scene import ROUTER, Scene
from bench.sites.systems import SERVICE, can_be_coordinated, start_service

ABOUT = "how long many sites take to join over ZooKeeper"
PROGRAMS = ["verge-bench-joins"]
CODE = (*BROKER, "crates/federation", "crates/coordination")
VARIABLES = ("RUNS",)
SWITCHES, SEVERAL = (), {}
OTHERS = UNTHROTTLED = False

PROGRAM = program("BENCH", "verge-bench-joins")
RUNS = 1 if QUICK else int(os.environ.get("RUNS", "3"))
JOINS = (2000, 10000) if QUICK else (2000, 4000, 6000, 8000, 10000)
# Routers, and joins, to see what more of them are worth here: nothing, as all share the processors.
ROUTERS, FEWER = 40, 5
LONG_SECONDS = 300


def counted(address):
    """Nodes and watches, as the server counts them."""
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), 5) as stream:
        stream.sendall(b"mntr")
        text = b"".join(iter(lambda: stream.recv(4096), b"")).decode()
    values = dict(line.split("\t", 1) for line in text.splitlines() if "\t" in line)
    return {"nodes": int(values["zk_znode_count"]), "watches": int(values["zk_watch_count"]), "sessions": int(values["zk_num_alive_connections"])}


def once(routers, joins):
    """On a server of its own, so that no former run's tree is there."""
    scene = Scene()
    try:
        start_service(scene)
        address = scene.address(ROUTER, SERVICE)
        child = subprocess.Popen([PROGRAM, address, "/verge", str(routers), str(joins)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)
        scene.children.append(child)
        line = child.stdout.readline()
        if not line:
            sys.exit(f"the measurement failed with {child.wait(LONG_SECONDS)}")
        report = json.loads(line) | counted(address)
        child.communicate("\n", timeout=LONG_SECONDS)
        return report
    finally:
        scene.end()


def measure(_chosen):
    if not can_be_coordinated():
        sys.exit("there is no ZooKeeper to measure with")
    sizes = [(ROUTERS, joins) for joins in JOINS] + [(FEWER, JOINS[-1])]
    runs = []
    for number in range(RUNS):
        for routers, joins in sizes:
            runs.append(undisturbed(lambda routers=routers, joins=joins: once(routers, joins)) | {"round": number})
            print(json.dumps(runs[-1]), file=sys.stderr, flush=True)
    return {"settings": {"runs": RUNS, "under_way": 256}, "figures": {"runs": runs, "load_average": os.getloadavg()[0]}}
