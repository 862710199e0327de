"""Figures of several rounds, as text."""

import statistics

# Student's t for 95 %, both sides, by degrees of freedom; from 30 on nearly that of the normal distribution.
T_95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101,
        2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045)


def spread(values, digits=0):
    """Median, smallest and largest; one value as it is."""
    values = [value for value in values if value is not None]
    if not values:
        return "-"
    shown = lambda value: f"{value:,.{digits}f}"
    if len(values) == 1:
        return shown(values[0])
    return f"{shown(statistics.median(values))} ({shown(min(values))} … {shown(max(values))})"


def confidence(values):
    """The mean, and half of its 95 % confidence interval; 0 for a single value."""
    if len(values) < 2:
        return statistics.fmean(values), 0.0
    freedom = len(values) - 1
    factor = T_95[freedom - 1] if freedom <= len(T_95) else 1.96
    return statistics.fmean(values), factor * statistics.stdev(values) / len(values) ** 0.5


def table(titles, rows):
    """Lines of a table; no rows, no lines."""
    rows = [f"| {' | '.join(map(str, row))} |" for row in rows]
    return [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|", *rows] if rows else []
