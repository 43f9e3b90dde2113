"""Best results of other systems on an NVIDIA H200, for the ratios printed by `gpu_search`.

    python gpu_best.py peers-h200.jsonl original-h200.jsonl > h200.json

The first file holds settings of cuVS CAGRA, of all elements and degrees, the second those of the program of the paper's
authors; both were measured on the same sets. The best at a recall is the fastest system there, each interpolated on its
own Pareto front; the front of a set is that of all systems together.
"""
import json, sys

from figures import front, speed_at

RECALLS = [0.90, 0.95, 0.98, 0.99]
LATENCY_RECALL = 0.945  # minimum recall of a setting whose latency is used
QUERIES = 10_000  # of a batch


def cagra(lines):
    """(set, system, k, recall, queries per second) of the graphs a user would build."""
    for line in lines:
        if line["kind"] == "search" and line["batch"] == QUERIES and "extended" not in line["graph"]:
            yield line["set"], f"CAGRA {line['data']} {line['graph']}", line["k"], line["recall"], line["qps"]


def authors(lines):
    """The same of the authors' search over exact vectors; their sets are named sift-like-1m."""
    for line in lines:
        if line.get("variant") in ("plain", "plain-alpha1"):
            yield line["set"].replace("-like", ""), "Jasper (authors)", line["k"], line["recall"], line["qps"]


def best(points, k, recall):
    """The fastest system at a recall, `null` if none gets there."""
    systems = {system for system, of, _, _ in points if of == k}
    speeds = {s: speed_at([(r, q) for other, of, r, q in points if (other, of) == (s, k)], recall)[0] for s in systems}
    reached = {system: speed for system, speed in speeds.items() if speed}
    if not reached:
        return None
    system = max(sorted(reached), key=reached.get)
    return {"recall": recall, "queries_per_second": round(reached[system]), "system": system}


def latency(lines, name):
    """Microseconds of one call by its queries, of the fastest setting that finds enough."""
    times = {}
    for line in lines:
        if line["kind"] == "latency" and line["set"] == name and line["recall"] >= LATENCY_RECALL:
            batch = str(line["batch"])
            times[batch] = min(times.get(batch, float("inf")), line["us_median"])
    return times


def summary(peer_lines, author_lines):
    sets = {}
    for name, *point in [*cagra(peer_lines), *authors(author_lines)]:
        sets.setdefault(name, []).append(point)
    return {name: {
        "best": [found for recall in RECALLS if (found := best(points, 10, recall))],
        "best_100": [found for recall in RECALLS if (found := best(points, 100, recall))],
        "front": front([(recall, round(speed)) for _, k, recall, speed in points if k == 10]),
        "latency_us": latency(peer_lines, name),
    } for name, points in sorted(sets.items())}


def read(path):
    with open(path) as file:
        return [json.loads(line) for line in file]


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    result = summary(*map(read, sys.argv[1:]))
    rows = [f" {json.dumps(name)}: {{\n" + ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in parts.items()) + "\n }"
            for name, parts in result.items()]
    print("{\n" + ",\n".join(rows) + "\n}")
