"""What the command line and the environment say of a measurement."""

import argparse
import os
import shlex
import sys

TARGET = os.environ.get("CARGO_TARGET_DIR", "./target")
QUICK = "--quick" in sys.argv
# A look does not write over what was measured.
RESULTS = os.environ.get("RESULTS", f"{TARGET}/bench" if QUICK else "bench/results")


def program(variable, name):
    """Where a program of this workspace is, if a variable does not say."""
    return os.environ.get(variable, f"{TARGET}/release/{name}")


def parsed(about, words, switches=(), several=None):
    """What these words say: switches, and words that may be given several times, of those that there are. Anything else is refused,
    since a measurement takes long."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in switches:
        parser.add_argument(f"--{name}", action="store_true")
    for name, known in (several or {}).items():
        parser.add_argument(f"--{name}", action="append", choices=known, default=[])
    return parser.parse_args(words)


def command(name, words, variables):
    """The command as it may be given again, with those of these variables that were set."""
    told = [f"{name}={shlex.quote(os.environ[name])}" for name in variables if name in os.environ]
    return " ".join([*told, "bench/run.py measure", name, *map(shlex.quote, words)])
