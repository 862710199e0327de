"""Whether the most urgent operators are served first, however much the others want."""

from bench.rooms.noise import is_disturbed
from bench.rooms.verdicts import bound

# Of the results that are expected; one may be on its way when a run ends.
ALL = 0.998


def of(reports, level, key):
    return [report["levels"][level][key] for report in reports]


def by_size(levels, way):
    """Reports by number of middle streams, with prioritization on or off."""
    return {int(name.split()[0]): reports for name, reports in levels.items() if name.split(maxsplit=1)[1] == way}


def judge(document):
    on, off = (by_size(document["figures"]["levels"], way) for way in ("on", "off"))
    full = max(on)
    disturbed = list(map(is_disturbed, on[full]))
    came = [100 * report["levels"]["high"]["results"] / report["levels"]["high"]["expected"] for report in on[full]]
    verdicts = [bound(f"{full} middle streams: all of the most urgent results come", came, lambda share: share >= 100 * ALL, 1, "%", disturbed)]
    if full in off:
        ratios = [without / max(with_levels, 1e-3) for with_levels, without in zip(of(on[full], "high", "p99_ms"), of(off[full], "high", "p99_ms"))]
        verdicts.append(bound(f"{full} middle streams: levels serve the most urgent sooner than deadlines alone (p99)", ratios, lambda ratio: ratio > 1, 2,
                              "times", disturbed))
    pairs = {name.split()[0]: reports for name, reports in document["figures"]["sharing"].items()}
    for copies in pairs:
        shared, apart = (document["figures"]["sharing"][f"{copies} {way}"] for way in ("on", "off"))
        saved = [100 * (1 - one["processor_share"] / other["processor_share"]) for one, other in zip(shared, apart)]
        verdicts.append(bound(f"{copies} copies: shared operators take less processor time", saved, lambda share: share > 0, 0, "% less"))
    return verdicts
