"""What copying the memory of operators to the backup costs: for some operators, fed 100 messages a second each for SECONDS, how large a copy
is, how often one goes, bytes per second, and the processor time of the primary against the same operators without a backup. ROUNDS times each.
`--quick`: a look."""

import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

from bench.rooms.code import BROKER, OPERATORS as CODE_OF_OPERATORS
from bench.rooms.options import QUICK, program
from bench.rooms.processes import free_ports

ABOUT = "what it costs that operators remember"
PROGRAMS = ["verge"]
CODE = (*BROKER, *CODE_OF_OPERATORS)
VARIABLES = ("ROUNDS", "SECONDS")
SWITCHES, SEVERAL = (), {}
OTHERS = UNTHROTTLED = False

PROGRAM = program("VERGE", "verge")
ROUNDS = 1 if QUICK else int(os.environ.get("ROUNDS", "3"))
SECONDS = 2 if QUICK else int(os.environ.get("SECONDS", "10"))
OPERATORS = {
    "threshold": 'kind = "threshold"\nabove = 0.5\n',
    "average over 16": 'kind = "average"\nwindow = 16\n',
    "average over 256": 'kind = "average"\nwindow = 256\n',
    "average over 4096": 'kind = "average"\nwindow = 4096\n',
    "fft of 2048": 'kind = "fft"\nsize = 2048\n',
    "ekf": 'kind = "ekf"\nmodel = "constant-velocity"\naxes = 1\nprocess = 1.0\nnoise = 4.0\n',
}
PERIOD_MS = 10
PRIMARY = 'verge_role{role="primary"}'


def configuration(folder, ports, operator):
    """A pair, a topic and an operator of it."""
    text = "".join(
        f'[brokers.{name}]\nclients = "127.0.0.1:{ports[3 * place]}"\npair = "127.0.0.1:{ports[3 * place + 1]}"\n'
        f'http = "127.0.0.1:{ports[3 * place + 2]}"\n'
        for place, name in enumerate("ab"))
    text += (f'[network]\nfailover = "200ms"\n[[topic]]\nfilter = "in"\nperiod = "{PERIOD_MS}ms"\ndeadline = "100ms"\nloss = 0\nretain = 40\n'
             f'[[source]]\ntopic = "in"\ntype = "json"\n[[operator]]\nname = "it"\ninputs = ["in"]\noutput = "out"\n{operator}')
    path = os.path.join(folder, "verge.toml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def metrics(port):
    """The numbers that a broker shows, by name; nothing where it does not answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=2) as answer:
            lines = answer.read().decode().splitlines()
    except OSError:
        return {}
    pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return {name: float(value) for name, value in pairs}


def wait_for(port, name, value):
    """Until a broker says so."""
    until = time.monotonic() + 20
    while metrics(port).get(name) != value:
        if time.monotonic() > until:
            raise SystemExit(f"watchdog: {name} is not {value}")
        time.sleep(0.05)


def once(operator, protected):
    """Copies, their bytes, and processor time of the primary, each for a second."""
    with tempfile.TemporaryDirectory() as folder:
        ports = free_ports(6)
        path = configuration(folder, ports, operator)
        readings = os.path.join(folder, "readings.csv")
        rows = (SECONDS + 10) * 1000 // PERIOD_MS
        with open(readings, "w", encoding="utf-8") as file:
            file.write("time,value\n" + "".join(f"{row * PERIOD_MS / 1000},{row % 97}\n" for row in range(rows)))
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        processes = []
        try:
            for name in "ab" if protected else "a":
                processes.append(subprocess.Popen([PROGRAM, "broker", name, "--config", path], **quiet))
                time.sleep(0.5)
            if protected:
                wait_for(ports[2], "verge_protected", 1)
                wait_for(ports[5], "verge_protected", 1)
            # Two that start together agree on either.
            reigns = next((port for port in (ports[2], ports[5]) if metrics(port).get(PRIMARY) == 1), ports[2])
            wait_for(reigns, PRIMARY, 1)
            replay = [PROGRAM, "replay", readings, "-t", "in", "--config", path]
            processes.append(subprocess.Popen(replay, **quiet))
            time.sleep(5)
            before = metrics(reigns)
            time.sleep(SECONDS)
            after = metrics(reigns)
        finally:
            for process in reversed(processes):
                process.send_signal(signal.SIGKILL)
                process.wait()
    per_second = lambda name: (after[name] - before[name]) / SECONDS
    return {"results": per_second("verge_operators_results_total"), "runs": per_second("verge_messages_arrived_total"),
            "copies": per_second("verge_operators_memory_copies_total"), "bytes": per_second("verge_operators_memory_bytes_total"),
            "cpu_ms": 1e3 * per_second("verge_process_cpu_seconds_total")}


def measure(_chosen):
    """Measures all, in turn, so that the host's moods meet all alike."""
    rows = {name: {"protected": [], "alone": []} for name in OPERATORS}
    for _ in range(ROUNDS):
        for name, operator in OPERATORS.items():
            for kind in ("protected", "alone"):
                rows[name][kind].append(once(operator, kind == "protected"))
                print(name, kind, rows[name][kind][-1], file=sys.stderr, flush=True)
    return {"settings": {"rounds": ROUNDS, "seconds": SECONDS, "period_ms": PERIOD_MS}, "figures": {"operators": rows}}
