"""Whether a primary that lives keeps its reign."""

from bench.rooms.verdicts import exact

MINUTES, LOSS_MOST = 10, 1.0


def of(document, part):
    return [row["report"] for row in document["figures"]["runs"] if row["part"] == part]


def judge(document):
    # In ten minutes; of less, so much less.
    in_ten = lambda row: row["takeovers"] * MINUTES / min(row["minutes"], MINUTES)
    compilers, links = of(document, "compilers"), [row for row in of(document, "links") if row["loss"] <= LOSS_MOST]
    rights = lambda wanted: [in_ten(row) for row in compilers if row["rights"] == wanted]
    return [
        exact("beside compilers with real-time rights, no false takeover in 10 minutes", rights(True), lambda count: count == 0),
        exact("beside compilers without them, at most 1 in 10 minutes", rights(False), lambda count: count <= 1),
        exact(f"on links, none up to {LOSS_MOST:g} % of loss", [sum(row["takeovers"] for row in links)] if links else [], lambda count: count == 0),
        exact("no message missing", [sum(row["missing"] for row in [*compilers, *links])] if compilers or links else [], lambda count: count == 0),
    ]
