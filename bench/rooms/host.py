"""The host on which is measured: what it is, what its hypervisor takes of it, and how it is kept awake and free for real-time threads."""

import contextlib
import os
import platform
import signal
import subprocess
import sys

from bench.rooms.options import program

AWAKE = program("AWAKE", "verge-bench-awake")
THROTTLE = "/proc/sys/kernel/sched_rt_runtime_us"


def machine():
    """What stands in a document."""
    model, virtual = "unknown model", False
    with open("/proc/cpuinfo") as file:
        for line in file:
            name, _, value = line.partition(":")
            if name.strip() == "model name" and model == "unknown model":
                model = value.strip()
            if name.strip() in ("flags", "Features"):
                virtual = virtual or "hypervisor" in value.split()
    return {"processors": os.cpu_count(), "model": model, "architecture": platform.machine(), "kernel": f"{platform.system()} {platform.release()}",
            "virtual": virtual}


@contextlib.contextmanager
def awake():
    """Meanwhile, processors that have nothing to do are kept from halting. One that halts in a virtual machine may be away for 20 ms
    before it is woken."""
    child = subprocess.Popen([AWAKE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        if not child.stdout.readline():
            sys.exit(f"{AWAKE} keeps no processors awake, and what is measured depends on it")
        yield
    finally:
        child.stdin.close()
        child.wait()


def stolen():
    """Processor time that the hypervisor gave to others, and all of it."""
    with open("/proc/stat") as file:
        fields = [int(word) for word in file.readline().split()[1:]]
    return fields[7], sum(fields[:8])


def share_stolen(before, after):
    """Of all processor time between two looks, what the hypervisor took."""
    return (after[0] - before[0]) / max(after[1] - before[1], 1)


@contextlib.contextmanager
def throttle(value):
    """Meanwhile, real-time threads may have so many microseconds of each second; -1: all of them, as `verge doctor` advises. Says how
    many they may have, since not every host lets it be changed."""
    with open(THROTTLE) as file:
        before = file.read().strip()
    def write(to):
        try:
            with open(THROTTLE, "w") as file:
                file.write(to)
        except OSError:
            return before
        return to
    # Who is asked to end puts it back as well.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        yield write(value)
    finally:
        write(before)


def realtime_limit():
    """What Linux leaves real-time threads of each second, in microseconds; nothing where that is not known."""
    try:
        with open(THROTTLE) as file:
            return file.read().strip()
    except OSError:
        return None
