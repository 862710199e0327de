"""What the page of commands beside messages says."""

from bench.control.judge import of
from bench.rooms.figures import spread, table
from bench.rooms.noise import disturbances


def row(name, runs):
    latency = [spread([run["latency"][key] for run in runs]) for key in ("p50_us", "p99_us", "p999_us", "max_us")]
    return (name, spread([100 * run["in_time"] for run in runs], 4), *latency, spread([run["missing"] for run in runs]),
            spread([run["broken_loss_bounds"] for run in runs]))


def values(document):
    runs = document["figures"]["runs"]
    calm, busy, fresh = (of(document, case) for case in ("calm", "busy", "set-up"))
    asked = [run["commands"] for run in busy if "failed" not in run["commands"]]
    failed = [f"- {run['case']}, round {run['round'] + 1}: {run['report']['failed']}" for run in runs if "failed" in run["report"]]
    failed += [f"- commands: {run['commands']['failed']}" for run in busy if "failed" in run["commands"]]
    of_asked = lambda key, digits=0: spread([run[key] for run in asked], digits)
    return {
        "disturbances": disturbances(run["report"] for run in runs),
        "latencies": table(["", "in time %", "p50", "p99", "p99.9", "max", "missing", "topics beyond their loss bound"], [row("calm", calm), row("busy", busy)]),
        "filters": of_asked("filters"), "filters_s": of_asked("filters_s", 3), "registered": of_asked("registered"),
        "first_registered_s": of_asked("first_registered_s", 3), "clients_per_s": of_asked("clients_per_s"),
        "graphs_changed": spread([run["graphs_changed"] for run in busy]),
        "registrations_s": spread([run["registrations_s"] for run in fresh], 3), "subscriptions_s": spread([run["subscriptions_s"] for run in fresh], 3),
        "failed": failed,
    }
