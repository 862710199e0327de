"""Two sites and routers, as real processes: what two hops cost, and how that grows with topics, what leaves a site and what it takes of the wire, how long nothing comes when a
router dies, and what a drain and a cut cost; beside leaf nodes of NATS and routers of Zenoh. `hops` and `topics` are on this host alone; the others are on
network namespaces with a link of their own each, 40 ms from one to another (rooms/wire.py; they need root). Routers that a service names (`alone`,
`drain`, `discovery`) need Java, and the jars of ZooKeeper that `cargo test -p verge-coordination` fetches. ROUNDS is how often each is done (3; a cut, which takes
long, once). VERGE, PEERS, NATS and ZENOH are the programs; what is missing is left out. `--quick`: once, and shorter. `--only PART` (several times:
several) does only these, and keeps the others as they were."""

import contextlib
import json
import os
import subprocess
import sys
import time

from bench.rooms import document, host
from bench.rooms.code import BROKER
from bench.rooms.hosts import Hosts
from bench.rooms.noise import undisturbed
from bench.rooms.options import QUICK
from bench.rooms.processes import scheduled, said
from bench.sites.scene import NORTH, ROUTER, SOUTH, URGENT, Scene, account, now_ns, processor_seconds, stop, wait
from bench.sites.systems import LOAD, MQTT, NATS, SESSION_SECONDS, Nats, NatsKept, Verge, VergeOnPaths, Zenoh, can_be_coordinated, others

ABOUT = "two sites and routers: hops, deaths of routers, drains, cuts; beside NATS and Zenoh"
PROGRAMS = ["verge", "verge-bench-peers", "verge-bench-awake"]
CODE = (*BROKER, "crates/backlog", "crates/federation", "crates/journal")
VARIABLES = ("ROUNDS",)
PARTS = ["hops", "topics", "local", "wire", "pair", "alone", "router", "drain", "discovery", "cut", "paths"]
SWITCHES, SEVERAL = (), {"only": PARTS}
OTHERS = UNTHROTTLED = False

ROUNDS = 1 if QUICK else int(os.environ.get("ROUNDS", "3"))
KILLS = 2 if QUICK else 10
DELAY_MS = 40
CUT_SECONDS = 10 if QUICK else 60
# After which what a router's death or a cut has done is taken to be over.
OVER_SECONDS = 15 if QUICK else 30
# Links of the table of paths: milliseconds, and the part of frames that is lost.
SHORT, LONG = (30, 0.0), (250, 0.01)
DISCOVERED = 3 if QUICK else 20
DRAINED_TOPICS = 100 if QUICK else 1000
SETTLE_SECONDS = 3
# Of these one round has many, or takes long.
ONCE = ("topics", "local", "wire", "pair", "discovery", "cut", "paths")


@contextlib.contextmanager
def scene(wide=True):
    """Sites and routers on hosts of their own, or all on this one."""
    made = Scene(Hosts(3, delay_us=DELAY_MS * 1000, megabits=100) if wide else None)
    try:
        yield made
    finally:
        made.end()


def hops():
    """One broker, and two sites with a router, with the same load; and a bare connection."""
    topics, period, seconds = 20, 20, 5 if QUICK else 20
    with host.awake():
        done = subprocess.run([LOAD, "echo", "--seconds", str(seconds)], capture_output=True, text=True, preexec_fn=scheduled(URGENT))
        report = {"topics": topics, "period_ms": period, "echo": json.loads(done.stdout), "rows": []}
        for kind in [Verge, *others()]:
            for two in (False, True):
                with scene(wide=False) as here:
                    system = kind(here)
                    to = SOUTH if two else NORTH
                    receiver = here.receive(system, topics, period, to)
                    publisher = here.publish(system, topics, period)
                    time.sleep(SETTLE_SECONDS)
                    brokers = {"router": next(iter(system.routers.values())), **system.sites}
                    spent, took = spent_by(brokers, seconds)
                    published = stop(publisher)
                    found = receiver.end()
                    messages = took * topics * 1000 / (period * (1 + 1 / 64))
                    report["rows"].append({"system": system.name, "two": two, "us_per_message": {name: 1e6 * cost / messages for name, cost in spent.items()}}
                                          | {key: found["latency"][key] for key in ("p50_us", "p99_us", "max_us")} | account(published, found))
    return [report]


def spent_by(brokers, seconds):
    """What each of these processes takes of a processor in so many seconds, and how long that really was."""
    before, began = {name: processor_seconds(child) for name, child in brokers.items()}, time.monotonic()
    time.sleep(seconds)
    took = time.monotonic() - began
    return {name: processor_seconds(child) - before[name] for name, child in brokers.items()}, took


def topics():
    """What a site, a router and the other site take of a processor as more and more topics cross."""
    period, seconds, rows = 50, 4 if QUICK else 15, []
    for count in (25, 50, 100, 200, 400):
        with scene(wide=False) as here:
            system = Verge(here)
            receiver, publisher = flow(here, system, count, period)
            spent, took = spent_by({"router": next(iter(system.routers.values())), **system.sites}, seconds)
            found, counts = ended(publisher, receiver)
            rows.append({"topics": count, "processor": {name: cost / took for name, cost in spent.items()}}
                        | {key: found["latency"][key] for key in ("p50_us", "p99_us", "max_us")} | counts)
    return [{"period_ms": period, "rows": rows}]


def flow(here, system, topics, period_ms, received="t", retain=200):
    """A load that has come across for a while."""
    receiver = here.receive(system, topics, period_ms, missed=system.missed, name=received)
    publisher = here.publish(system, topics, period_ms, retain)
    time.sleep(SETTLE_SECONDS + 3 * period_ms / 1000)
    return receiver, publisher


def ended(publisher, receiver):
    published = stop(publisher)
    time.sleep(SETTLE_SECONDS)
    found = receiver.end()
    return found, account(published, found)


def pair():
    """The primary of a router that is a pair is killed, again and again."""
    # As much as the planner asks for: what is retained is sent first, over a connection that was idle.
    topics, period, retain = 20, 50, 6
    with scene() as here:
        system = Verge(here, brokers="ab", retain=0)
        receiver, publisher = flow(here, system, topics, period, retain=retain)
        silences, primary = [], "a"
        for _ in range(KILLS):
            wait(lambda: system.ask("r1", ROUTER, "status", "-o", "json").stdout.count('"protected": true') >= 2, 60, lambda: here.log("r1.a.log"))
            time.sleep(2)
            since = now_ns()
            here.kill(system.routers[f"r1.{primary}"])
            receiver.listen(4)
            silences.append(receiver.longest_gap(since))
            system.routers[f"r1.{primary}"] = system.broker("r1", ROUTER, primary)
            primary = "b" if primary == "a" else "a"
        _, counts = ended(publisher, receiver)
        return [{"system": "verge", "topics": topics, "period_ms": period, "retain": retain, "silence_ms": silences} | counts]


def one_of_two(here, system):
    """The router by which messages go is killed; there is another one."""
    topics, period = 20, 50
    receiver, publisher = flow(here, system, topics, period)
    time.sleep(5)
    since = now_ns()
    here.kill(next(iter(system.routers.values())))
    receiver.listen(OVER_SECONDS)
    silence = receiver.longest_gap(since)
    _, counts = ended(publisher, receiver)
    return {"system": system.name, "topics": topics, "period_ms": period, "silence_ms": [silence]} | counts


def alone():
    """One of two routers that are alone; the service notices when its session has ended."""
    if not can_be_coordinated():
        return []
    with scene() as here:
        return [one_of_two(here, Verge(here, routers=("r1", "r2"), coordinated=True)) | {"session_s": SESSION_SECONDS}]


def router():
    """The same of others."""
    reports = []
    for kind in others():
        with scene() as here:
            reports.append(one_of_two(here, kind(here, routers=("r1", "r2"))))
    return reports


def drain():
    """All topics go by one router; another one comes, and the first gives them away."""
    topics, period = DRAINED_TOPICS, 1000
    if not can_be_coordinated():
        return []
    with scene() as here:
        system = Verge(here, coordinated=True)
        receiver, publisher = flow(here, system, topics, period)
        time.sleep(10)
        system.router("r2", 1)
        time.sleep(3)
        since, began = now_ns(), time.monotonic()
        done = system.ask("north", NORTH, "router", "drain", "r1", "--within", "300s")
        took = time.monotonic() - began
        receiver.listen(5)
        silence = receiver.longest_gap(since)
        _, counts = ended(publisher, receiver)
        return [{"system": "verge", "topics": topics, "period_ms": period, "drained": done.returncode == 0, "said": (done.stdout + done.stderr)[-300:],
                 "seconds": took, "silence_ms": [silence]} | counts]


def discovery():
    """How long it takes from when a topic has both a publisher and a subscriber to the first message: one that nobody has met, and one that has its router."""
    if not can_be_coordinated():
        return []
    with scene() as here:
        system = Verge(here, coordinated=True, mqtt=True)

        def begin(place, act, *words):
            child = here.start(place, ["bench/sites/mqtt.py", act, here.address(place, MQTT), *words], "mqtt.log", URGENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            return child, told(child)["began_ns"]

        new, known = [], []
        for number in range(DISCOVERED):
            topic = f"discovered/{number}"
            subscriber, _ = begin(SOUTH, "subscribe", topic)
            time.sleep(1)
            publisher, published = begin(NORTH, "publish", topic, "5")
            new.append((told(subscriber)["came_ns"] - published) / 1e6)
            # Until nobody wants it elsewhere.
            time.sleep(SETTLE_SECONDS)
            subscriber, asked = begin(SOUTH, "subscribe", topic)
            known.append((told(subscriber)["came_ns"] - asked) / 1e6)
            publisher.stdin.close()
        return [{"system": "verge", "new_ms": new, "known_ms": known}]


def told(child):
    line = child.stdout.readline()
    return json.loads(line) if line else sys.exit("a client has ended")


def cut():
    """The receiving site is cut off."""
    topics, period = 20, 100
    kept = f'[[topic]]\nfilter = "t/#"\nperiod = "{period}ms"\ndeadline = "1s"\nretain = 200\nkeep = "1h"\n'
    there = others()
    kinds = [lambda here: Verge(here, kept=kept), *there, *([NatsKept] if Nats in there else [])]
    reports = []
    for kind in kinds:
        with scene() as here:
            system = kind(here)
            receiver, publisher = flow(here, system, topics, period, getattr(system, "topics", "t"))
            time.sleep(10)
            here.hosts.cut(SOUTH)
            time.sleep(CUT_SECONDS)
            receiver.listen()
            since = now_ns()
            here.hosts.heal(SOUTH)
            receiver.listen(CUT_SECONDS + OVER_SECONDS)
            # Those that the cut made.
            live = [gap["ended_ns"] for gap in receiver.ended_gaps(since) if gap["ended_ns"] - 1e6 * gap["gap_ms"] <= since]
            found, counts = ended(publisher, receiver)
            after = lambda at: None if at is None else (at - since) / 1e9
            old = [at for at in found["old_ns"] or [] if at >= since]
            reports.append({"system": system.name, "topics": topics, "period_ms": period, "cut_s": CUT_SECONDS, "live_s": after(min(live, default=None)),
                            "all_live_s": after(max(live, default=None)), "old_begins_s": after(min(old, default=None)),
                            "old_ends_s": after(max(old, default=None)), "old": sum(topic["old"] for topic in found["topics"])} | counts)
    return reports


def wire():
    """What messages of 64 bytes take on the wire: what leaves the publishing site, the router and the receiving site."""
    topics, period, seconds = 20, 50, 4 if QUICK else 15
    reports = []
    for kind in [Verge, *others()]:
        with scene() as here:
            system = kind(here)
            places = {"north": NORTH, "router": ROUTER, "south": SOUTH}
            idle = {name: here.hosts.bytes_of(place) for name, place in places.items()}
            time.sleep(seconds)
            idle = {name: here.hosts.bytes_of(place) - idle[name] for name, place in places.items()}
            receiver, publisher = flow(here, system, topics, period)
            before = {name: here.hosts.bytes_of(place) for name, place in places.items()}
            time.sleep(seconds)
            busy = {name: here.hosts.bytes_of(place) - before[name] for name, place in places.items()}
            _, counts = ended(publisher, receiver)
            messages = seconds * topics * 1000 / (period * (1 + 1 / 64))
            reports.append({"system": system.name, "topics": topics, "period_ms": period, "idle_bytes_per_second": {name: count / seconds for name, count in idle.items()},
                            "bytes_per_message": {name: (busy[name] - idle[name]) / messages for name in places}} | counts)
    return reports


def local():
    """What leaves a site of what nobody elsewhere wants: nothing; and how latency follows from what is wanted elsewhere."""
    topics, period, seconds = 100, 50, 4 if QUICK else 15
    rows = []
    with scene() as here:
        system = Verge(here)
        time.sleep(SETTLE_SECONDS)
        for crossing in (None, 0, 10, 40):
            at_home = here.receive(system, topics, period, NORTH)
            elsewhere = here.receive(system, topics, period, name="g") if crossing else None
            loads = [] if crossing is None else [here.publish(system, topics - crossing, period)]
            loads += [here.publish(system, crossing, period, name="g")] if crossing else []
            time.sleep(SETTLE_SECONDS)
            before = here.hosts.bytes_of(NORTH)
            time.sleep(seconds)
            bytes_each = (here.hosts.bytes_of(NORTH) - before) / seconds
            published = [sum(stop(load)["published"]) for load in loads]
            there = elsewhere.end() if elsewhere else None
            rows.append({"topics": topics if loads else 0, "crossing": crossing or 0, "bytes_per_second": bytes_each, "published": sum(published),
                         "here": at_home.end()["latency"], "elsewhere": there and there["latency"]})
            time.sleep(SETTLE_SECONDS)
    return [{"period_ms": period, "rows": rows}]


def one_case(paths, links):
    """A load by one path or both, with these delays and losses of the links: from site to site, to the other router, and from there."""
    topics, period, retain, seconds = 20, 200, 60, 6 if QUICK else 30
    with scene() as here:
        for pair, (delay, lost) in zip(((NORTH, SOUTH), (NORTH, ROUTER), (ROUTER, SOUTH)), links):
            here.hosts.way(*pair, delay, lost)
        system = VergeOnPaths(here, paths, period, retain)
        receiver, publisher = flow(here, system, topics, period, retain=retain)
        before = here.hosts.bytes_of(NORTH)
        time.sleep(seconds)
        sent = here.hosts.bytes_of(NORTH) - before
        found, counts = ended(publisher, receiver)
        return {"paths": paths, "links": links, "topics": topics, "period_ms": period, "bytes_per_message": sent / (seconds * topics * 1000 / (period * (1 + 1 / 64)))} \
            | {key: found["latency"][key] for key in ("p50_us", "p99_us", "max_us")} | counts


def paths():
    """Table 1 of PubSubCoord: a direct link and two more by another router, each quick or slow with losses; and each path by itself."""
    quick, slow, middle = SHORT, LONG, (125, 0.01)
    both = [(direct, to, onward) for direct in (quick, slow) for to in (quick, slow) for onward in (quick, slow)] + [(middle, middle, middle)]
    around = [(quick, quick, quick), (quick, quick, slow), (quick, slow, slow), (middle, middle, middle)]
    direct = [(link, quick, quick) for link in (quick, slow, middle)]
    return [one_case(names, links) for names, cases in ((["direct", "around"], both), (["around"], around), (["direct"], direct)) for links in cases]


def measure(chosen):
    by, parts = document.commit(), chosen.only or PARTS
    kept = document.kept_runs("sites") if set(parts) != set(PARTS) else []
    runs = [row for row in kept if row["part"] not in parts]
    for part in parts:
        act = globals()[part]
        for number in range(1 if part in ONCE else ROUNDS):
            reports = undisturbed(lambda: {"reports": act()}) if part == "hops" else {"reports": act()}
            for report in reports.pop("reports"):
                report |= reports
                print(part, json.dumps(report), file=sys.stderr, flush=True)
                runs.append({"part": part, "round": number, "commit": by, "report": report})
    releases = {"nats": said([NATS, "--version"]) if Nats in others() else None}
    return {"settings": {"delay_ms": DELAY_MS, "rounds": ROUNDS, "kills": KILLS, "cut_s": CUT_SECONDS, "others": releases}, "figures": {"runs": runs}}
