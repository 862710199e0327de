"""What the page of modules that do not end says."""

from bench.modules.judge import ALLOWED
from bench.rooms.figures import table


def values(document):
    report = document["figures"]
    budget = report["budget_us"]
    end = lambda kind: kind["stopped_us"]["median"]
    # Others were stopped before something that could not be interrupted.
    slowest = min((kind for kind in report["stopped"] if end(kind) > budget / 2), key=lambda kind: kind["fuel_per_us"])
    latest = max(report["stopped"], key=end)
    beyond = [kind["kind"] for kind in report["stopped"] if end(kind) > ALLOWED * budget]
    rows = []
    for kind in report["stopped"]:
        stopped, anew, took = kind["stopped_us"], kind["anew_us"], kind["took_us"]
        numbers = (kind["fuel_per_us"], kind["fuel_per_us_least"], stopped["median"], stopped["p99"], stopped["max"], anew["median"], anew["max"],
                   took["median"], took["max"])
        rows.append((kind["kind"], *(f"{number:,.0f}" for number in numbers)))
    asking = [(f"{row['rounds']:,}", f"{row['fuel']:,}", f"{row['without_us']:.2f}", f"{row['with_us']:.2f}",
               f"{row['with_us'] / row['without_us']:.3f}") for row in report["asking"]]
    return {
        "load": f"{report['load_average']:.0f}", "budget_ms": f"{budget / 1000:g}",
        "slowest": f"{slowest['fuel_per_us']:.0f} fuel in a microsecond in the median: {slowest['kind']}",
        "latest": f"{end(latest):,.0f} us in the median: {latest['kind']}",
        "beyond": f"Beyond {ALLOWED} of the budget in the median: {', '.join(beyond)}." if beyond else
                  f"No kind took more than {ALLOWED} of its budget in the median.",
        "stopped": table(["code", "fuel/us, median", "least", "stopped us, median", "99 %", "max", "anew us, median", "max",
                          "by the wall us, median", "max"], rows),
        "walls_clock_ns": f"{report['clock_ns'][0]:,.0f}", "processors_clock_ns": f"{report['clock_ns'][1]:,.0f}",
        "asking": table(["numbers", "fuel", "without us", "with us", "ratio"], asking),
    }
