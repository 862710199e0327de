"""Whether a message takes no more instructions than its baseline says. No rounds differ here, so noise is what other versions of the C library
and other processors make."""

# Other versions of the C library copy and allocate a little differently.
TOLERATED_PERCENT = 3.0
ACCEPT = "make instructions ACCEPT=1"


def compare(counted, known):
    """A row for each scenario: name, count, baseline, difference in percent; the latter two may be missing."""
    rows = []
    for name, value in counted.items():
        before = known.get(name)
        rows.append((name, value, before, (value / before - 1) * 100 if before else None))
    return rows


def judge(rows, known):
    """What is wrong, and what else is worth saying."""
    wrong, remarks = [], []
    for name, value, before, percent in rows:
        if percent is None:
            wrong.append(f"{name} has no baseline; accept {value:,.1f} with `{ACCEPT}`")
        elif percent > TOLERATED_PERCENT:
            wrong.append(f"{name} takes {percent:.1f} % more instructions per message than its baseline ({value:,.1f} instead of "
                         f"{before:,.1f}; {TOLERATED_PERCENT:.0f} % are tolerated). Find out why: callgrind_annotate names functions. "
                         f"If it is worth it, accept it with `{ACCEPT}` and say in the commit what it buys")
        elif percent < -TOLERATED_PERCENT:
            remarks.append(f"{name} takes {-percent:.1f} % fewer instructions than its baseline: keep it with `{ACCEPT}`")
    gone = sorted(known.keys() - {row[0] for row in rows})
    wrong += [f"{name} is in the baseline and no scenario any more; say so with `{ACCEPT}`" for name in gone]
    return wrong, remarks
