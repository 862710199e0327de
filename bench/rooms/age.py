"""How old a page is: what of the code that it measures has changed since."""

import glob
import json
import os
import re

from bench.rooms import document
from bench.rooms.processes import said


def of(found):
    """The commits that a document was measured by: parts of it may have been kept from others."""
    rows = found["figures"].get("runs", [])
    kept = {row["commit"] for row in rows if "commit" in row} if isinstance(rows, list) else set()
    return sorted({found["commit"], *kept})


def since(commits, paths):
    """How many commits have changed these paths since the one of these by which most have; nothing where that is not known."""
    counts = [commits_since(commit, paths) for commit in commits] if paths else []
    return None if not counts or None in counts else max(counts)


def commits_since(commit, paths):
    """How many commits have changed these paths since; nothing where that commit is not known here."""
    if not commit or not said(["git", "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}"]).startswith(commit):
        return None
    return len(said(["git", "log", "--format=%h", f"{commit}..HEAD", "--", *paths]).splitlines())


def told(commits, paths):
    """A sentence for the head of a page; nothing where it is as new as the code."""
    if commits is None:
        return "Its commit is not in this history, so whether it is older than the code is not known."
    if not commits:
        return ""
    return f"**Older than the code:** {commits} {'commit' if commits == 1 else 'commits'} since, to {', '.join(f'`{path}`' for path in paths)}."


# What pages say that were written before documents said what they are.
COMMITS = re.compile(r"\b[Cc]ommit ([0-9a-f]{7,40})\b")


def commits_of_page(folder, name):
    """The commits that a page was measured by, and whether a document stands behind it."""
    try:
        return of(document.load(os.path.join(folder, f"{name}.json"))), True
    except document.Trouble:
        with open(os.path.join(folder, f"{name}.md")) as file:
            return list(dict.fromkeys(COMMITS.findall(file.read().replace("\n", " ")))), False


def rows(folder, measurements):
    """Every page of a folder: its commits, the most that has changed since one of them, and what stands behind it."""
    found = []
    for path in sorted(glob.glob(os.path.join(folder, "*.md"))):
        name = os.path.basename(path).removesuffix(".md")
        commits, is_document = commits_of_page(folder, name)
        paths = list(measurements[name].CODE) if name in measurements else []
        behind = since(commits, paths)
        found.append({"page": path, "measurement": name if name in measurements else None, "commits": commits, "commits_since": behind,
                      "older": None if behind is None else behind > 0, "document": is_document, "code": paths})
    return found


def table(found):
    """For people."""
    lines = [("page", "commit", "commits since", "document")]
    for row in found:
        behind = {None: "unknown", 0: "none"}.get(row["commits_since"], str(row["commits_since"]))
        lines.append((row["page"], ", ".join(row["commits"]) or "unknown", behind, "yes" if row["document"] else "no"))
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines)


def as_json(found):
    return json.dumps(found, indent=1)
