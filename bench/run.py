#!/usr/bin/env python3
"""Measures one thing, or a group of them, by name: builds what is measured, installs what stands beside it, and calls its runner. What
follows the name goes to the runner, as `--quick`."""

import argparse
import os
import subprocess
import sys
from typing import NamedTuple

sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

from bench.rooms.common import TARGET, to_repository


class Part(NamedTuple):
    """A measurement: what it shows, its runner with arguments, and the programs of this workspace that it needs."""
    about: str
    runner: list
    programs: list
    others: bool = False  # Needs other brokers or stores.


PEERS = ["verge", "verge-bench-awake", "verge-bench-peers"]


def beside(kind, about):
    """One kind of load on Verge and other brokers; other kinds stay on the page."""
    return Part(about, ["peers", "--case", kind, "--keep"], PEERS, True)


PARTS = {
    "sim": Part("how much faster than life the simulator is", ["sim"], ["verge"]),
    "frame": Part("the workload of FRAME, table 3.2, by policy, with and without a crash, up to where it breaks", ["frame"], ["verge"]),
    "cpep": Part("operators by level, from light load to a full host", ["processing"], ["verge-bench-awake", "verge-bench-processing"]),
    "modules": Part("when modules that do not end are stopped", ["modules"], ["verge-bench-modules"]),
    "arrec": Part("copies by policy while a broker processes messages, and crashes", ["replication"], ["verge"]),
    "control": Part("messages while clients subscribe, register, come and go, and graphs change", ["control"], ["verge", "verge-bench-awake", "verge-bench-peers"]),
    "mqtt": Part("the MQTT gateway beside mosquitto", ["mqtt"], ["verge", "verge-bench-mqtt"], True),
    "urgent": beside("urgent", "urgent messages while bulk saturates, beside other brokers"),
    "pingpong": beside("pingpong", "round trips beside other brokers"),
    "apart": beside("apart", "round trips with the broker on a processor of its own"),
    "flood": beside("flood", "one publisher to one subscriber, as much as goes, beside other brokers"),
    "fanout": beside("fanout", "one publisher to many subscribers beside other brokers"),
    "table32": beside("frame", "the workload of FRAME, table 3.2, beside other brokers"),
    "limit": Part("the floor of each load that other brokers get: the bare relay and the keeper alone", ["peers", "--only", "relay", "--only", "keeper"], PEERS),
    "crash": Part("silence and losses when a broker or its host dies, beside other brokers", ["crash"], PEERS, True),
    "edge": Part("made-up workloads near what is admitted, and how late they are", ["edge"], ["verge", "verge-bench-awake", "verge-bench-edge"]),
    "takeovers": Part("take-overs from a primary that lives, beside compilers and on a link that loses", ["takeovers"], ["verge"]),
    "kv": Part("the key-value store beside Redis and etcd", ["kv"], ["verge-bench-kv", "verge-bench-awake"], True),
    "flink": Part("the graph of CPEP, figure 2.6, beside Apache Flink", ["flink"], ["verge-bench-awake", "verge-bench-processing"]),
}
GROUPS = {
    "own": ["sim", "frame", "cpep", "modules", "arrec", "mqtt"],
    "peers": ["urgent", "pingpong", "apart", "flood", "fanout", "table32", "crash", "kv"],
}


def arguments():
    listing = [f"  {name:10}{part.about}" for name, part in PARTS.items()]
    listing += [f"  {name:10}{', '.join(names)}" for name, names in GROUPS.items()]
    parser = argparse.ArgumentParser(description=__doc__, epilog="\n".join(["names:", *listing]),
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=[*PARTS, *GROUPS], metavar="NAME")
    return parser.parse_known_args()


def must(*words):
    if (code := subprocess.run(words).returncode) != 0:
        sys.exit(code)


def prepare(parts):
    """Builds and installs what these need. What cannot be had is left out of their pages."""
    needed = sorted({program for part in parts for program in part.programs})
    must(os.environ.get("CARGO", "cargo"), "build", "--release", *[word for name in needed for word in ("--bin", name)])
    if any(part.others for part in parts):
        must("bench/install-peers.sh", f"{TARGET}/peers")
    if any(part.others and part.runner[0] == "peers" for part in parts):
        built = subprocess.run([os.environ.get("CARGO", "cargo"), "build", "--release", "--locked"], cwd="bench/zenoh")
        if built.returncode != 0:
            print("no Zenoh: it is not measured", file=sys.stderr)


def run(part, words):
    runner, *given = part.runner
    if "--quick" in words:
        # A look writes a page of its own, on which there is nothing to keep.
        given = [word for word in given if word != "--keep"]
    must(sys.executable, "-m", f"bench.{runner}.measure", *given, *words)


def main():
    chosen, words = arguments()
    to_repository()
    parts = [PARTS[name] for name in GROUPS.get(chosen.name, [chosen.name])]
    if chosen.name == "limit":
        # No page of its own: both are rows of the page beside other brokers.
        os.environ.setdefault("RESULTS", f"{TARGET}/bench")
    prepare(parts)
    for part in parts:
        run(part, words)


if __name__ == "__main__":
    main()
