"""What the runners share: the command line, where results go, ports, priorities, what the host is, processor time, medians and confidence
intervals."""

import argparse
import contextlib
import json
import os
import platform
import resource
import shlex
import signal
import socket
import statistics
import subprocess
import sys

DESCRIPTORS = 20000
TARGET = os.environ.get("CARGO_TARGET_DIR", "./target")
QUICK = "--quick" in sys.argv
# A look does not write over what was measured.
RESULTS = os.environ.get("RESULTS", f"{TARGET}/bench" if QUICK else "bench/results")


def program(variable, name):
    """Where a program of this workspace is, if a variable does not say."""
    return os.environ.get(variable, f"{TARGET}/release/{name}")


AWAKE = program("AWAKE", "verge-bench-awake")
# For the pages. See crates/host/src/awake.rs.
KEPT_AWAKE = ("Processors are kept awake as by `realtime.awake`: the kernel polls instead of halting them, or, where it cannot, threads of "
              "SCHED_IDLE spin.")
THROTTLE = "/proc/sys/kernel/sched_rt_runtime_us"


def options(about, *switches, **several):
    """What the command line says: switches, and words that may be given several times, of those that there are. Anything else is
    refused, since a measurement takes long."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in switches:
        parser.add_argument(f"--{name}", action="store_true")
    for name, known in several.items():
        parser.add_argument(f"--{name}", action="append", choices=known, default=[])
    return parser.parse_args()


def command(*variables):
    """The command as it may be given again, with those of these variables that were set."""
    told = [f"{name}={shlex.quote(os.environ[name])}" for name in variables if name in os.environ]
    name = os.path.basename(os.path.dirname(os.path.abspath(sys.argv[0])))
    return " ".join([*told, f"bench/run.py {name}", *sys.argv[1:]])


def to_repository():
    """All paths are from there."""
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))


def write_results(files):
    """Texts by file name."""
    os.makedirs(RESULTS, exist_ok=True)
    for name, text in files.items():
        with open(os.path.join(RESULTS, name), "w") as file:
            file.write(text)


def read_results(name):
    """What was measured before."""
    path = os.path.join(RESULTS, name)
    try:
        with open(path) as file:
            return json.load(file)
    except OSError as error:
        sys.exit(f"{path}: {error.strerror}: measure first")


def free_ports(count):
    held = [socket.socket() for _ in range(count)]
    for one in held:
        one.bind(("127.0.0.1", 0))
    numbers = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return numbers


def scheduled(priority, processors=None):
    """For a child: its priority under SCHED_FIFO where the host allows it, 0 for ordinary scheduling; room for descriptors; and where it
    may run, if not everywhere."""
    def act():
        if processors:
            os.sched_setaffinity(0, processors)
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(DESCRIPTORS, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        if priority:
            try:
                os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
            except PermissionError:
                pass
    return act


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


# A measurement during which the hypervisor takes more of the processors than this is made again, at most so many times.
STOLEN_MOST, REPEATS = 0.01, 0 if QUICK else 2


def undisturbed(measure):
    """The report of the try during which the hypervisor took least, with what it took and the tries that were made."""
    tries = []
    while not tries or (tries[-1][0] > STOLEN_MOST and len(tries) <= REPEATS):
        before = stolen()
        report = measure()
        tries.append((share_stolen(before, stolen()), report))
    taken, report = min(tries, key=lambda one: one[0])
    return report | {"stolen_share": taken, "tries": len(tries)}


def disturbances(reports):
    """A sentence about the repetitions, from the reports alone, since another command may have made them."""
    reports = list(reports)
    again = [report["tries"] - 1 for report in reports if report["tries"] > 1]
    worst = max((report["stolen_share"] for report in reports), default=0)
    if not again:
        return f"None of {len(reports)} measurements was made again; it took up to {100 * worst:.1f} % of one."
    return (f"{len(again)} of {len(reports)} measurements, during which it took more than {100 * STOLEN_MOST:g} %, were made again, at most "
            f"{['once', 'twice'][max(again) - 1]}, and the try with the least counts; after that it had taken up to {100 * worst:.1f} % of one.")


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
    """A sentence: what Linux leaves real-time threads of each second."""
    try:
        with open(THROTTLE) as file:
            limit = file.read().strip()
    except OSError:
        return "How much of each second Linux leaves real-time threads is not known."
    if limit == "-1":
        return "`kernel.sched_rt_runtime_us` is -1, as `verge doctor` advises."
    return f"Linux leaves real-time threads {limit} us of each second (`kernel.sched_rt_runtime_us`; `verge doctor` advises -1)."


def machine():
    """Model, processors, kernel."""
    model = "unknown model"
    with open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return f"{os.cpu_count()} processors ({model}), {platform.machine()}, {platform.system()} {platform.release()}"


def said(words):
    """What a program prints, or nothing if it is not there."""
    try:
        done = subprocess.run(words, capture_output=True, text=True)
    except OSError:
        return ""
    return (done.stdout or done.stderr).strip()


def origin(by, host, taken):
    """A sentence: the commit, the machine, and the share of its processors that the hypervisor took."""
    return f"Commit {by}. Machine: {host}, a shared virtual machine; the hypervisor took {100 * taken:.1f} % of its processors meanwhile."


def commit():
    """With a sign if what is measured is not what was committed."""
    changed = "+" if said(["git", "status", "--porcelain", "--untracked-files=no"]) else ""
    return said(["git", "rev-parse", "--short=12", "HEAD"]) + changed


def spread(values, digits=0):
    """Median, smallest and largest; one value as it is."""
    values = [value for value in values if value is not None]
    if not values:
        return "-"
    shown = lambda value: f"{value:,.{digits}f}"
    if len(values) == 1:
        return shown(values[0])
    return f"{shown(statistics.median(values))} ({shown(min(values))} … {shown(max(values))})"


# Student's t for 95 %, both sides, by degrees of freedom; from 30 on nearly that of the normal distribution.
T_95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101,
        2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045)


def confidence(values):
    """The mean, and half of its 95 % confidence interval; 0 for a single value."""
    if len(values) < 2:
        return statistics.fmean(values), 0.0
    freedom = len(values) - 1
    factor = T_95[freedom - 1] if freedom <= len(T_95) else 1.96
    return statistics.fmean(values), factor * statistics.stdev(values) / len(values) ** 0.5
