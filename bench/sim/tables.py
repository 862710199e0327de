"""What the page of the simulator's speed says."""

import statistics


def values(document):
    reports = document["figures"]["reports"]
    factors = [report["times_real_time"] for report in reports]
    messages = sum(topic["published"] for topic in reports[0]["topics"])
    real = statistics.median(report["real_s"] for report in reports)
    return {
        "per_second": f"{messages / reports[0]['simulated_s']:.0f}", "slowest": f"{min(factors):.0f}",
        "median": f"{statistics.median(factors):.0f}", "fastest": f"{max(factors):.0f}", "millions": f"{messages / real / 1e6:.2f}",
    }
