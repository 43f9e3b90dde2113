"""Makes tables of measured settings: queries per second at equal recall, and ratios to the best graph index.

    python figures.py results.jsonl      prints the tables of an earlier run
"""
import json, math, sys

RECALLS = [0.90, 0.95, 0.99]
NOT_A_GRAPH = {"scann"}  # listed, but not part of the ratio


def front(points):
    """The (recall, speed) pairs that no other pair beats in both, by ascending recall."""
    kept = []
    for recall, speed in sorted(points, reverse=True):
        if not kept or speed > kept[-1][1]:
            kept.append((recall, speed))
    return kept[::-1]


def speed_at(points, recall):
    """(speed, mark): log-linear between neighbors on the front. `>`: the fastest setting has more recall already."""
    points = front(points)
    if not points or points[-1][0] < recall:
        return None, "-"
    if points[0][0] >= recall:
        return points[0][1], ">"
    for (r0, s0), (r1, s1) in zip(points, points[1:]):
        if r1 >= recall:
            share = (recall - r0) / (r1 - r0)
            return math.exp(math.log(s0) + share * (math.log(s1) - math.log(s0))), ""


def table(lines, by):
    """The lines of one set as Markdown; `by` is the field that holds the speed."""
    systems = list(dict.fromkeys(line["system"] for line in lines))
    speeds, best = {}, {}
    for system in systems:
        own = [(line["recall"], line[by]) for line in lines if line["system"] == system and line[by]]
        speeds[system] = {recall: speed_at(own, recall) for recall in RECALLS}
    for recall in RECALLS:
        graphs = [speeds[s][recall][0] for s in systems if not s.startswith("jasper") and s not in NOT_A_GRAPH]
        best[recall] = max((speed for speed in graphs if speed), default=None)
    rows = ["| system | " + " | ".join(f"{r:.2f}" for r in RECALLS) + " | build s | build CPU s | peak MB |",
            "| --- |" + " ---: |" * (len(RECALLS) + 3)]
    for system in systems:
        cells = []
        for recall in RECALLS:
            speed, mark = speeds[system][recall]
            ratio = f" ({speed / best[recall]:.2f})" if speed and best[recall] else ""
            cells.append(f"{mark}{speed / 1000:.1f}k{ratio}" if speed else mark)
        any_line = next(line for line in lines if line["system"] == system)
        cells += [f"{any_line[key]:.0f}" for key in ("build_seconds", "build_cpu_seconds", "peak_mb")]
        rows.append(f"| {system} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def report(lines):
    """Both tables of every set."""
    for name in dict.fromkeys(line["set"] for line in lines):
        own = [line for line in lines if line["set"] == name]
        first = own[0]
        print(f"\n{name}: {first['points']} x {first['dimension']} {first['dtype']}, {first['metric']}, "
              f"{first['queries']} queries, {first['threads']} threads")
        for by, title in (("qps", "wall clock"), ("qps_cpu", "threads / CPU time")):
            print(f"\nQueries per second at recall@{first['k']}, by {title}; in brackets the ratio to the best graph index "
                  f"among the competitors\n\n{table(own, by)}")


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        report([json.loads(line) for line in file])
