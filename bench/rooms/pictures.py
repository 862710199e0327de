"""Pictures of results, as SVG without anything that must be installed."""

import math

COLORS = {"verge": "#0b6e4f", "mosquitto": "#3c6ca8", "nats": "#c8553d", "jetstream": "#c8553d", "redis": "#8d5a97", "relay": "#777777", "keeper": "#aaaaaa",
          "zenoh": "#b8860b", "verge-silent": "#4a9c7d", "jetstream-silent": "#d9785a",
          "verge high": "#0b6e4f", "verge middle": "#4a9c7d", "verge low": "#8fc7ae", "flink high": "#b3341f", "flink middle": "#d9785a",
          "flink low": "#ebb09b", "etcd": "#c8553d", "(4,1) mean": "#0b6e4f", "(4,1) worst": "#8fc7ae", "(7,2) mean": "#3c6ca8",
          "(7,2) worst": "#9db8d8"}
FONT = 'font-family="DejaVu Sans, Verdana, sans-serif"'
WIDTH = 860
LEFT, RIGHT = 200, 110
ROW, GAP, TOP, BOTTOM = 20, 16, 64, 44


def text(x, y, words, size=12, anchor="start", color="#222222", weight="normal"):
    words = words.replace("&", "&amp;").replace("<", "&lt;")
    return (f'<text x="{x:.1f}" y="{y:.1f}" {FONT} font-size="{size}" text-anchor="{anchor}" fill="{color}" '
            f'font-weight="{weight}">{words}</text>')


def short(value):
    """A number that people can read."""
    for factor, sign in ((1e6, " M"), (1e3, " k")):
        if value >= factor:
            return f"{value / factor:.3g}{sign}"
    return f"{value:.3g}"


def decades(low, high):
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    return [10.0 ** power for power in range(first, max(last, first + 1) + 1)]


def frame(title, subtitle, height, parts):
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}">'
            f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>')
    return "\n".join([head, text(16, 26, title, 16, weight="bold"), text(16, 46, subtitle, 12, color="#555555"), *parts, "</svg>"]) + "\n"


def axis(marks, place, bottom, unit):
    lines = []
    for mark in marks:
        x = place(mark)
        lines.append(f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{bottom}" stroke="#dddddd"/>')
        lines.append(text(x, bottom + 16, short(mark), 11, "middle", "#555555"))
    lines.append(text(WIDTH - RIGHT, bottom + 34, unit, 11, "end", "#555555"))
    return lines


def bars(title, subtitle, unit, groups):
    """Groups: their names, and of each the rows (broker, median, smallest, largest). On a logarithmic scale."""
    rows = [row for _, rows in groups for row in rows]
    if not rows:
        return None
    marks = decades(min(row[2] for row in rows) * 0.7, max(row[3] for row in rows))
    low, high = math.log10(marks[0]), math.log10(marks[-1])
    place = lambda value: LEFT + (math.log10(max(value, marks[0])) - low) / (high - low) * (WIDTH - LEFT - RIGHT)
    y, drawn = TOP + 8, []
    for name, rows in groups:
        drawn.append(text(16, y + 13, name, 12, weight="bold"))
        for broker, middle, smallest, largest in rows:
            color = COLORS.get(broker, "#444444")
            drawn.append(text(LEFT - 8, y + 14, broker, 12, "end"))
            drawn.append(f'<rect x="{LEFT}" y="{y + 3}" width="{max(place(middle) - LEFT, 1):.1f}" height="{ROW - 6}" fill="{color}"/>')
            drawn.append(f'<line x1="{place(smallest):.1f}" y1="{y + ROW / 2}" x2="{place(largest):.1f}" y2="{y + ROW / 2}" '
                         'stroke="#000000" stroke-width="1.5"/>')
            drawn.append(text(max(place(largest), place(middle)) + 6, y + 14, short(middle), 11))
            y += ROW
        y += GAP
    return frame(title, subtitle, y + BOTTOM, axis(marks, place, y, unit) + drawn)


def percentiles(title, subtitle, unit, lines):
    """Lines: (broker, [(name of the percentile, or of what else goes from left to right, value)]). The value upwards, on a logarithmic scale."""
    lines = [(broker, points) for broker, points in lines if points]
    if not lines:
        return None
    height, bottom, left, right = 420, 370, 70, 130
    values = [max(value, 1e-9) for _, points in lines for _, value in points]
    marks = decades(min(values), max(values))
    low, high = math.log10(marks[0]), math.log10(marks[-1])
    names = [name for name, _ in lines[0][1]]
    across = lambda index: left + 30 + index * (WIDTH - left - right - 60) / max(len(names) - 1, 1)
    up = lambda value: bottom - (math.log10(max(value, marks[0])) - low) / (high - low) * (bottom - TOP)
    parts = []
    for mark in marks:
        parts.append(f'<line x1="{left}" y1="{up(mark):.1f}" x2="{WIDTH - right}" y2="{up(mark):.1f}" stroke="#dddddd"/>')
        parts.append(text(left - 8, up(mark) + 4, short(mark), 11, "end", "#555555"))
    parts.append(text(WIDTH - right, bottom + 40, unit, 11, "end", "#555555"))
    for index, name in enumerate(names):
        parts.append(text(across(index), bottom + 20, name, 12, "middle", "#555555"))
    # Names at the right, in the order of their lines and apart from each other.
    ends = sorted(((up(points[-1][1]), broker) for broker, points in lines))
    at, last = {}, -math.inf
    for y, broker in ends:
        at[broker] = last = max(y, last + 15)
    for broker, points in lines:
        color = COLORS.get(broker, "#444444")
        places = [(across(index), up(value)) for index, (_, value) in enumerate(points)]
        parts.append('<polyline fill="none" stroke-width="2.5" stroke="%s" points="%s"/>' % (
            color, " ".join(f"{x:.1f},{y:.1f}" for x, y in places)))
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{color}"/>' for x, y in places]
        parts.append(text(places[-1][0] + 12, at[broker] + 4, broker, 12, color=color, weight="bold"))
    return frame(title, subtitle, height, parts)


def messages(title, subtitle, columns, rows, deadline):
    """Messages one by one around an instant. Columns: their names. Rows: (name, [(messages, losses) or None for each column]); a message is
    (number, creation in seconds from the instant, latency in milliseconds), a loss its creation. On a logarithmic scale upwards."""
    height, space, left, right = 104, 22, 100, 20
    cells = [cell for _, row in rows for cell in row if cell]
    values = [latency for found, _ in cells for _, _, latency in found]
    if not values:
        return None
    marks = decades(min([*values, deadline]), max([*values, deadline]))
    low, high = math.log10(marks[0]), math.log10(marks[-1])
    times = [created for found, _ in cells for _, created, _ in found]
    first, last = min(times), max(max(times), min(times) + 0.1)
    width = (WIDTH - left - right - 40 * (len(columns) - 1)) / len(columns)
    parts = []
    for index, name in enumerate(columns):
        begin = left + index * (width + 40)
        across = lambda seconds: begin + (seconds - first) / (last - first) * width
        parts.append(text(begin + width / 2, TOP + 12, name, 12, "middle", weight="bold"))
        for number, (policy, row) in enumerate(rows):
            top = TOP + 24 + number * (height + space)
            up = lambda value: top + height - (math.log10(max(value, marks[0])) - low) / (high - low) * height
            parts.append(f'<rect x="{begin:.1f}" y="{top}" width="{width:.1f}" height="{height}" fill="none" stroke="#cccccc"/>')
            for mark in marks[1:-1]:
                parts.append(f'<line x1="{begin:.1f}" y1="{up(mark):.1f}" x2="{begin + width:.1f}" y2="{up(mark):.1f}" stroke="#eeeeee"/>')
            for mark in marks if index == 0 else []:
                parts.append(text(begin - 6, up(mark) + 4, short(mark), 10, "end", "#555555"))
            if index == 0:
                parts.append(text(16, top + height / 2 + 4, policy, 13, weight="bold"))
            parts.append(f'<line x1="{begin:.1f}" y1="{up(deadline):.1f}" x2="{begin + width:.1f}" y2="{up(deadline):.1f}" stroke="#c8553d" '
                         'stroke-dasharray="5 4"/>')
            if first <= 0 <= last:
                parts.append(f'<line x1="{across(0):.1f}" y1="{top}" x2="{across(0):.1f}" y2="{top + height}" stroke="#222222"/>')
            if not row[index]:
                parts.append(text(begin + width / 2, top + height / 2 + 4, "not measured", 12, "middle", "#555555"))
                continue
            found, losses = row[index]
            parts += [f'<circle cx="{across(created):.1f}" cy="{up(latency):.1f}" r="2.2" fill="#0b6e4f"/>' for _, created, latency in found]
            parts += [f'<path d="M{across(created) - 4:.1f} {top + 4} l8 8 m0 -8 l-8 8" stroke="#d00000" stroke-width="2" fill="none"/>'
                      for created in losses]
        bottom = TOP + 24 + len(rows) * (height + space) - space
        for mark in range(math.ceil(first * 2), math.floor(last * 2) + 1):
            parts.append(text(across(mark / 2), bottom + 15, f"{mark / 2:g}", 11, "middle", "#555555"))
    parts.append(text(WIDTH - right, bottom + 34, "seconds from SIGKILL to the creation of a message; latency in ms, dashed: the deadline", 11, "end",
                      "#555555"))
    return frame(title, subtitle, bottom + BOTTOM, parts)
