"""What the page beside mosquitto says."""

from bench.mqtt.judge import cases, reports
from bench.rooms import figures
from bench.rooms.figures import spread


def table(document, kind, columns):
    """Rows of a case and a broker; columns: title, what of a run, digits."""
    rows = [(case, name, *(spread([of(run) for run in reports(document, kind, case, name)], digits) for _, of, digits in columns))
            for case in cases(document, kind) for name in document["settings"]["brokers"]]
    return figures.table(["case", "broker", *(title for title, _, _ in columns)], rows)


def values(document):
    priority = document["settings"]["priority"]
    us = lambda key: lambda report: report["latency"][key]
    missing = ("missing", lambda r: r["missing"], 0)
    per_second = ("delivered per broker second", lambda r: r["delivered_per_broker_s"], 0)
    return {
        "scheduling": f"Brokers have SCHED_FIFO priority {priority}, the load {priority + 5}" if priority else "All have ordinary scheduling",
        "mosquitto": document["settings"]["version"] or "No mosquitto",
        "throughput": table(document, "throughput", [
            per_second, ("delivered per second", lambda r: r["delivered_per_s"], 0), ("broker, % of a processor", lambda r: 100 * r["broker_s"] / r["seconds"], 0),
            ("load, %", lambda r: 100 * r["load_s"] / r["seconds"], 0), missing]),
        "latency": table(document, "latency", [("p50", us("p50_us"), 0), ("p99", us("p99_us"), 0), ("max", us("max_us"), 0), per_second, missing]),
        "urgent": table(document, "urgent", [
            ("p50", us("p50_us"), 0), ("p99", us("p99_us"), 0), ("max", us("max_us"), 0), ("lost", lambda r: r["urgent_published"] - r["urgent_delivered"], 0),
            ("bulk delivered per second", lambda r: r["bulk_delivered_per_s"], 0), ("broker, % of a processor", lambda r: 100 * r["broker_share"], 0)]),
        "idle": table(document, "idle", [
            ("resident", lambda r: r["after_bytes"] / 1e6, 1), ("before", lambda r: r["before_bytes"] / 1e6, 1),
            ("bytes per connection", lambda r: r["bytes_per_connection"], 0), ("seconds to connect", lambda r: r["connecting_s"], 1)]),
    }
