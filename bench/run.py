#!/usr/bin/env python3
"""Measures, judges what was measured, and renders pages of it; each is a room of its own.

  measure NAME [WORDS]   builds what is measured, installs what stands beside it, measures, and writes a JSON document
  judge FILE [--json]    says of each target whether a document meets it; ends with 1 if one is missed
  render FILE            writes the page of a document beside it
  status [--json]        lists the pages, and how many commits their code has had since
  stale [--json]         the same, of those that are older than their code
  NAME [WORDS]           measure, judge and render, of one measurement or a group

Documents and pages go to bench/results, with --quick to target/bench, or where RESULTS says. Other words go to the measurement; `measure NAME
--help` says which it knows."""

import argparse
import importlib
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[0] = ROOT

from bench.rooms import age, document, options, render, verdicts

MEASUREMENTS = ("sim", "frame", "processing", "modules", "memories", "replication", "control", "mqtt", "edge", "takeovers", "peers", "crash", "kv", "flink", "journal", "joins", "sites", "meetings")
# Measurements, and single kinds of load of them, which leave others on the page: measurement, words, what it is.
NAMES = {
    "cpep": ("processing", [], None),
    "arrec": ("replication", [], None),
    "urgent": ("peers", ["--case", "urgent", "--keep"], "urgent messages while bulk saturates, beside other brokers"),
    "pingpong": ("peers", ["--case", "pingpong", "--keep"], "round trips beside other brokers"),
    "apart": ("peers", ["--case", "apart", "--keep"], "round trips with the broker on a processor of its own"),
    "flood": ("peers", ["--case", "flood", "--keep"], "one publisher to one subscriber, as much as goes, beside other brokers"),
    "fanout": ("peers", ["--case", "fanout", "--keep"], "one publisher to many subscribers beside other brokers"),
    "table32": ("peers", ["--case", "frame", "--keep"], "the workload of FRAME, table 3.2, beside other brokers"),
    "limit": ("peers", ["--only", "relay", "--only", "keeper"], "the floor of each load that other brokers get: the bare relay and the keeper alone"),
}
GROUPS = {
    "own": ["sim", "frame", "processing", "modules", "replication", "mqtt", "journal"],
    "peers": ["urgent", "pingpong", "apart", "flood", "fanout", "table32", "crash", "kv"],
}
CARGO = os.environ.get("CARGO", "cargo")


def measurement(name):
    return importlib.import_module(f"bench.{name}.measure")


def measurements():
    return {name: measurement(name) for name in MEASUREMENTS}


def resolved(name):
    """The measurement by a name, and the words that the name stands for."""
    folder, words, _ = NAMES.get(name, (name, [], None))
    if folder not in MEASUREMENTS:
        raise document.Trouble(f"there is no measurement {name}; `bench/run.py --help` lists them")
    if "--quick" in sys.argv:
        # A look writes a page of its own, on which there is nothing to keep.
        words = [word for word in words if word != "--keep"]
    return folder, words


def must(*words, **more):
    if (code := subprocess.run(words, **more).returncode) != 0:
        sys.exit(code)


def prepare(folders):
    """Builds and installs what these need. What cannot be had is left out of their pages."""
    parts = [measurement(folder) for folder in folders]
    needed = sorted({program for part in parts for program in part.PROGRAMS})
    must(CARGO, "build", "--release", *[word for name in needed for word in ("--bin", name)])
    if any(part.OTHERS for part in parts):
        must("bench/install-peers.sh", f"{options.TARGET}/peers")
    for part in parts:
        if hasattr(part, "prepare"):
            part.prepare(CARGO)


def measure(name, words):
    """Where the document went; nothing if it was skipped."""
    folder, own = resolved(name)
    part, words = measurement(folder), [*own, *words]
    chosen = options.parsed(part.__doc__, words, ("quick", *part.SWITCHES), part.SEVERAL)
    prepare([folder])
    found = document.measured(folder, words, part, chosen)
    return found and document.save(found)


def judged(path):
    found = document.load(path)
    return importlib.import_module(f"bench.{found['measurement']}.judge").judge(found)


def judge(path, as_json):
    found = judged(path)
    if as_json:
        print(json.dumps([verdict._asdict() for verdict in found], indent=1))
    else:
        print("\n".join(f"{one.outcome:14}{one.target}: {one.figure}{', ' + one.remark if one.remark else ''}" for one in found))
    return 1 if verdicts.has_missed(found) else 0


def rendered(path):
    """Writes the page of a document beside it, and its pictures; returns the page."""
    found, folder = document.load(path), os.path.dirname(path)
    name, part = found["measurement"], measurement(found["measurement"])
    tables = importlib.import_module(f"bench.{name}.tables")
    pictures = tables.pictures(found) if hasattr(tables, "pictures") else {}
    values = tables.values(found) | {"picture": {title.removesuffix(".svg").replace("-", "_"): drawn for title, drawn in pictures.items()}}
    behind = age.since(age.of(found), part.CODE)
    with open(f"bench/{name}/page.md") as file:
        text = render.page(file.read(), found, values, judged(path), age.told(behind, part.CODE))
    for title, words in {f"{name}.md": text, **pictures}.items():
        if words:
            with open(os.path.join(folder, title), "w") as file:
                file.write(words)
    return text


def status(only_stale, as_json):
    found = age.rows("bench/results", measurements())
    if only_stale:
        found = [row for row in found if row["older"]]
    print(age.as_json(found) if as_json else age.table(found))


def everything(name, words):
    """Measures, judges and renders one thing or a group, each in a process of its own."""
    if name in GROUPS:
        prepare(dict.fromkeys(resolved(one)[0] for one in GROUPS[name]))
        for one in GROUPS[name]:
            must(sys.executable, "bench/run.py", one, *words)
        return
    if name == "limit" and "RESULTS" not in os.environ:
        # No page of its own: both are rows of the page beside other brokers.
        must(sys.executable, "bench/run.py", name, *words, env=os.environ | {"RESULTS": f"{options.TARGET}/bench"})
        return
    path = measure(name, words)
    if path:
        print(rendered(path))


def listing():
    parts = {"measurements": [(name, part.ABOUT) for name, part in measurements().items()],
             "other names": [(name, about or f"the same as {folder}") for name, (folder, _, about) in NAMES.items()],
             "groups, which NAME means first": [(name, ", ".join(names)) for name, names in GROUPS.items()]}
    return "\n".join(line for title, names in parts.items() for line in [f"{title}:", *(f"  {name:13}{about}" for name, about in names)])


def main():
    os.chdir(ROOT)
    given = sys.argv[1:]
    if not given or given[0] in ("-h", "--help"):
        print(f"{__doc__}\n\n{listing()}")
        return 0 if given else 2
    first, *rest = given
    if first == "measure" and rest and rest[0] not in ("-h", "--help"):
        path = measure(rest[0], rest[1:])
        print(path or "skipped")
    elif first in ("judge", "render", "status", "stale"):
        asked = argparse.ArgumentParser(prog=f"bench/run.py {first}")
        if first in ("judge", "render"):
            asked.add_argument("file", help="a document, as `measure` writes it")
        if first != "render":
            asked.add_argument("--json", action="store_true")
        asked = asked.parse_args(rest)
        if first == "judge":
            return judge(asked.file, asked.json)
        if first == "render":
            rendered(asked.file)
        else:
            status(first == "stale", asked.json)
    elif first in ("measure", *GROUPS, *NAMES, *MEASUREMENTS):
        if first == "measure":
            print(f"{__doc__}\n\n{listing()}")
        else:
            everything(first, rest)
    else:
        print(f"bench/run.py: {first} is none of its words and no measurement; see --help", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (document.Trouble, render.Unknown) as trouble:
        print(trouble, file=sys.stderr)
        sys.exit(2)
