"""What the page of copies says."""

from bench.replication.judge import LAZY, bounds, saved
from bench.rooms.figures import spread, table

CATEGORIES = {"1": "1 (L=0)", "2": "2 (L=0)", "3": "3 (L=0)", "4": "4 (L=3)", "5": "5 (L=3)"}
TIMED = ("1", "2", "4", "5")


def copies(by, settings):
    for policy, all_runs in by.items():
        for topics in settings["sizes"]:
            some = [run for run in all_runs if run["topics"] == topics and not run["swapped"]]
            if some:
                share = [100 * run["bytes_per_s"] / max(run["arrived_per_s"] * settings["payload_bytes"], 1) for run in some]
                column = lambda key, factor=100, digits=1: spread([factor * run[key] for run in some], digits)
                yield (policy, topics // settings["divide"], len(some), column("bytes_per_s", 1e-3), spread(share, 1), column("copies_per_s", 1, 0),
                       sum(run["late_copies"] for run in some), column("data_thread"), column("workers"), column("backup"))


def losses(by):
    for policy, some in by.items():
        cells = []
        for number in CATEGORIES:
            rows = [run["categories"][number] for run in some]
            kept, topics = sum(row["kept"] for row in rows), sum(row["topics"] for row in rows)
            cells.append(f"{100 * kept / topics:.2f} % ({max(row['worst_run'] for row in rows)})")
        yield (policy, len(some), *cells)


def latencies(by, poll_ms):
    for policy, some in by.items():
        for number in TIMED:
            rows = [run["categories"][number] for run in some]
            column = lambda key: spread([row[key] for row in rows], 1)
            within = sum(row["peak_ms"] <= row["calm_p99_ms"] + poll_ms for row in rows if row["peak_ms"] and row["calm_p99_ms"])
            quiet = [peak <= row["calm_p99_ms"] + poll_ms for row in rows for peak in row["quiet_peaks_ms"]]
            yield (policy, number, column("calm_p50_ms"), column("calm_p99_ms"), column("calm_max_ms"), column("peak_ms"), f"{within}/{len(rows)}",
                   f"{sum(quiet)}/{len(quiet)}")


def values(document):
    runs, settings = document["figures"]["runs"], document["settings"]
    by = {policy: [run for run in runs if run["policy"] == policy] for policy in settings["policies"]}
    by = {policy: some for policy, some in by.items() if some}
    ratios, (kept, contracts) = saved(document), bounds(document)
    return {
        "sizes": ", ".join(str(topics // settings["divide"]) for topics in settings["sizes"]),
        "saved": (f"Lazy copies of all messages send {100 * min(ratios):.1f} to {100 * max(ratios):.1f} % fewer bytes than periodic ones at 25 ms "
                  f"(by size, medians), and kept {kept} of {contracts} loss bounds over {len(by[LAZY])} crashes.") if ratios else "",
        "copies": table(["policy", "topics", "runs", "copied kB/s", "of what arrived %", "copies/s", "late copies", "data thread %", "operators %", "backup %"],
                        copies(by, settings)),
        "losses": table(["policy", "crashes", *CATEGORIES.values()], losses(by)),
        "latencies": table(["policy", "category", "calm p50", "calm p99", "calm max", "peak", "within", "quiet within"], latencies(by, settings["poll_ms"])),
        "outages_ms": spread([run["outage_ms"] for run in runs], 2), "unprotected": sum(not run["protected"] for run in runs),
        "taken_over": sum(run["promotions_before"] > 1 for run in runs), "swapped": sum(run["swapped"] for run in runs),
        "stolen": spread([100 * run["stolen"] for run in runs], 1),
    }
