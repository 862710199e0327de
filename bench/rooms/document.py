"""The document of a measurement: one JSON object with what was measured, by which command, on what, of which code. Judges and pages are
made of it alone."""

import contextlib
import datetime
import json
import os

from bench.rooms import host
from bench.rooms.options import RESULTS, command
from bench.rooms.processes import said

# Goes up when a document can no longer be read as before.
SCHEMA = 1
HEAD = ("schema", "measurement", "command", "commit", "dirty", "machine", "date", "stolen_share", "realtime_limit_us", "settings", "figures")


class Trouble(Exception):
    """What is no document, and what to do."""


def commit():
    return said(["git", "rev-parse", "--short=12", "HEAD"])


def is_dirty():
    """Whether what is measured is not what was committed. Pages are not measured."""
    return bool(said(["git", "status", "--porcelain", "--untracked-files=no", "--", ".", ":!bench/results"]))


def measured(name, words, measurement, chosen):
    """Measures, and returns the document, or nothing if it was skipped. The commit is that of the beginning."""
    head = {"schema": SCHEMA, "measurement": name, "command": command(name, words, measurement.VARIABLES), "commit": commit(), "dirty": is_dirty(),
            "machine": host.machine(), "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")}
    with host.throttle("-1") if measurement.UNTHROTTLED else contextlib.nullcontext():
        before = host.stolen()
        found = measurement.measure(chosen)
        if found is None:
            return None
        head |= {"stolen_share": host.share_stolen(before, host.stolen()), "realtime_limit_us": host.realtime_limit()}
    return head | {"settings": found["settings"], "figures": found["figures"]}


def path_of(name):
    return os.path.join(RESULTS, f"{name}.json")


def save(document):
    """Where it went."""
    path = path_of(document["measurement"])
    os.makedirs(RESULTS, exist_ok=True)
    with open(path, "w") as file:
        json.dump(document, file, indent=1)
        file.write("\n")
    return path


def load(path):
    try:
        with open(path) as file:
            found = json.load(file)
    except OSError as error:
        raise Trouble(f"{path}: {error.strerror}: measure first") from None
    except ValueError as error:
        raise Trouble(f"{path} is no JSON: {error}") from None
    return checked(found, path)


def checked(found, path):
    if not isinstance(found, dict) or "schema" not in found:
        raise Trouble(f"{path} was measured before documents said what they are: measure again")
    if found["schema"] != SCHEMA:
        raise Trouble(f"{path} has schema {found['schema']}, and this program reads {SCHEMA}: take the one of commit {found.get('commit')}")
    absent = [key for key in HEAD if key not in found]
    if absent:
        raise Trouble(f"{path} lacks {', '.join(absent)}")
    return found


def kept_runs(name):
    """Runs that were measured before, where a measurement adds to them; none if there are none. Each says by which commit."""
    path = path_of(name)
    if not os.path.exists(path):
        return []
    with open(path) as file:
        found = json.load(file)
    # Before documents had a schema, those of some measurements said so already.
    told = isinstance(found, dict) and "schema" not in found and found.get("runs") and all("commit" in run for run in found["runs"])
    return found["runs"] if told else checked(found, path)["figures"]["runs"]
