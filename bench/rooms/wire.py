#!/usr/bin/env python3
"""A switch in user space with links of a stated speed and delay, for kernels without netem: each of COUNT hosts is a network namespace with
one link (10.77.0.1 and so on); 10.77.0.254 is this side, without delay. Says `ready`, and lives until its input ends. Lines of it are commands:
`cut HOST`, `heal HOST`, `way HOST HOST MS LOST` (between these two frames take so long, and such a part of them is lost), and `bytes HOST`, which is
answered with how many that host has sent. From SIGUSR1 on, `--fault` befalls what the last
host sends: `late` for LATE_MS each frame, `lossy` with LOST of them, `corrupt` with CORRUPT of those with data, such that no checksum of TCP
notices.

A frame leaves when the link of its sender, and then that of its receiver, has carried what came before it, and arrives a delay later that
is drawn anew for each, but not before what the same host has sent to the same one."""

import argparse
import collections
import fcntl
import os
import random
import select
import signal
import struct
import subprocess
import sys
import time

TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
FRAME_MAX = 2048
# Preamble, checksum and gap, which the wire carries too.
OVERHEAD_BYTES = 24
LATE_MS, LOST, CORRUPT = 30, 0.3, 0.05
# Before tasks and lanes, so that the wire is not what is late.
PRIORITY = 30
# What waits for one link; a switch has no more.
QUEUE_BYTES = 1 << 20


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--prefix", required=True, help="of the names of namespaces and links")
    parser.add_argument("--megabits", type=float, default=100)
    parser.add_argument("--delay-us", type=int, nargs=2, default=(200, 500))
    parser.add_argument("--fault", choices=("late", "lossy", "corrupt"))
    return parser.parse_args()


def ip(*words):
    done = subprocess.run(["ip", *map(str, words)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"wire: `ip {' '.join(map(str, words))}`: {done.stderr.strip()}: it needs root, namespaces and /dev/net/tun")


def namespace(prefix, host):
    return f"{prefix}{host}"


class Link:
    """A host's end: what has come from it, and what waits for it."""

    def __init__(self, prefix, number, hosts):
        self.own = number == hosts
        self.file = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        name = f"{prefix}t{number}"
        fcntl.ioctl(self.file, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TAP | IFF_NO_PI))
        ip("link", "set", name, "address", f"02:00:00:00:00:{number + 1:02x}")
        place = []
        if not self.own:
            ip("link", "set", name, "netns", namespace(prefix, number))
            place = ["-n", namespace(prefix, number)]
        ip(*place, "addr", "add", f"10.77.0.{254 if self.own else number + 1}/24", "dev", name)
        ip(*place, "link", "set", name, "up")
        self.sent_until = self.carried_until = 0.0
        # When what came last arrives, by sender.
        self.last = [0.0] * (hosts + 1)
        self.waiting, self.bytes = collections.deque(), 0
        self.cut, self.sent = False, 0


class Wire:
    def __init__(self, plan):
        self.plan, self.faulty = plan, False
        for host in range(plan.hosts):
            ip("netns", "add", namespace(plan.prefix, host))
            ip("-n", namespace(plan.prefix, host), "link", "set", "lo", "up")
        self.links = [Link(plan.prefix, number, plan.hosts) for number in range(plan.hosts + 1)]
        self.least, self.most = (1e-6 * us for us in plan.delay_us)
        self.random = random.Random(1)
        # Between which hosts it is another one: seconds, and the part that is lost.
        self.ways = {}

    def take(self, now, source):
        """Whatever a host has sent."""
        link = self.links[source]
        for _ in range(64):
            try:
                frame = os.read(link.file, FRAME_MAX)
            except BlockingIOError:
                return
            if link.cut:
                continue
            link.sent += len(frame) + OVERHEAD_BYTES
            late = 0.0
            if self.faulty and source == self.plan.hosts - 1:
                fault = self.plan.fault
                if fault == "lossy" and self.random.random() < LOST:
                    continue
                late = LATE_MS / 1e3 if fault == "late" else 0.0
                if fault == "corrupt":
                    frame = self.corrupted(frame)
            takes = 0.0 if link.own else (len(frame) + OVERHEAD_BYTES) * 8 / (self.plan.megabits * 1e6)
            link.sent_until = max(now, link.sent_until) + takes
            target = frame[5] - 1
            if frame[0] & 1:
                targets = [one for one in range(len(self.links)) if one != source]
            else:
                targets = [target] if 0 <= target < len(self.links) else []
            for target in targets:
                self.give(source, target, frame, takes, late)

    def give(self, source, target, frame, takes, late):
        sender, link = self.links[source], self.links[target]
        took, lost = self.ways.get((source, target), (None, 0.0))
        if lost and self.random.random() < lost:
            return
        if link.cut or link.bytes + len(frame) > QUEUE_BYTES:
            return
        link.carried_until = max(sender.sent_until, link.carried_until) + takes
        between = self.random.uniform(self.least, self.most) if took is None else took
        delay = 0.0 if sender.own or link.own else between + late
        leaves = link.last[source] = max(link.carried_until + delay, link.last[source])
        link.bytes += len(frame)
        place = len(link.waiting)
        while place and link.waiting[place - 1][0] > leaves:
            place -= 1
        link.waiting.insert(place, (leaves, frame))

    def corrupted(self, frame):
        """Two of its words have changed places, where it is of TCP and has data."""
        if len(frame) < 120 or frame[12:14] != b"\x08\x00" or frame[23] != 6 or self.random.random() >= CORRUPT:
            return frame
        begin = 14 + (frame[14] & 15) * 4
        begin += (frame[begin + 12] >> 4) * 4
        at = begin + 2 * self.random.randrange((len(frame) - begin) // 4)
        to = at + 2 * ((len(frame) - at) // 4)
        changed = bytearray(frame)
        changed[at:at + 2], changed[to:to + 2] = frame[to:to + 2], frame[at:at + 2]
        return bytes(changed)

    def deliver(self, now):
        """What is due; returns when the next is."""
        next_at = None
        for link in self.links:
            while link.waiting and link.waiting[0][0] <= now:
                _, frame = link.waiting.popleft()
                link.bytes -= len(frame)
                try:
                    os.write(link.file, frame)
                except (BlockingIOError, OSError):
                    pass
            if link.waiting:
                next_at = min(next_at or link.waiting[0][0], link.waiting[0][0])
        return next_at

    def obey(self, command, host, *more):
        if command == "way":
            other, milliseconds, lost = more
            for pair in ((int(host), int(other)), (int(other), int(host))):
                self.ways[pair] = (float(milliseconds) / 1e3, float(lost))
            return
        link = self.links[int(host)]
        if command == "bytes":
            print(link.sent, flush=True)
        else:
            link.cut = command == "cut"

    def run(self):
        files = {link.file: number for number, link in enumerate(self.links)}
        while True:
            next_at = self.deliver(time.monotonic())
            patience = None if next_at is None else max(next_at - time.monotonic(), 0)
            ready, _, _ = select.select([*files, 0], [], [], patience)
            now = time.monotonic()
            for file in ready:
                if file == 0:
                    told = os.read(0, 4096)
                    if not told:
                        return
                    for line in told.decode().splitlines():
                        self.obey(*line.split())
                else:
                    self.take(now, files[file])


def main():
    plan = arguments()
    try:
        wire = Wire(plan)
        signal.signal(signal.SIGUSR1, lambda *_: setattr(wire, "faulty", True))
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
        except PermissionError:
            pass
        print("ready", flush=True)
        wire.run()
    finally:
        for host in range(plan.hosts):
            subprocess.run(["ip", "netns", "del", namespace(plan.prefix, host)], capture_output=True)


if __name__ == "__main__":
    main()
