"""Best results of other systems on an NVIDIA H200, for the ratios printed by `gpu_search`.

    python gpu_best.py peers-h200.jsonl original-h200.jsonl peers-ivf-rabitq-h200.jsonl > h200.json

The first file holds settings of cuVS CAGRA, of all elements and degrees, the second those of the program of the paper's
authors, the third those of cuVS IVF-RaBitQ; all were measured on the same sets. The best at a recall is the fastest
index there, each interpolated on its own Pareto front; the front of a set is that of all indexes together. The fastest
build is that of the index that is built first among those that reach a recall of 0.95.
"""
import json, sys

from figures import front, speed_at

RECALLS = [0.90, 0.95, 0.98, 0.99]
LATENCY_RECALL = 0.945  # minimum recall of a setting whose latency is used
BUILD_RECALL = 0.95  # that an index must reach for its build to count
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


def ivf_rabitq(lines):
    """The same of IVF-RaBitQ, an index per number of lists and of bits."""
    for line in lines:
        if line["what"] == "point":
            yield line["set"], ivf_rabitq_name(line), 10, line["recall"], line["qps"]


def ivf_rabitq_name(line):
    return f"IVF-RaBitQ {line['n_lists']} lists, {line['bits']} bits"


def builds(peer_lines, author_lines, ivf_lines):
    """(set, system, seconds) of the same indexes, from vectors in device memory."""
    short = {"nn_descent": "nnd"}
    for line in peer_lines:
        if line["kind"] == "build" and line["system"] == "cuvs-cagra" and line["source"] == "device":
            graph = f"{short.get(line['algo'], line['algo'])}{line['graph_degree']}"
            yield line["set"], f"CAGRA {line['data']} {graph}", line["seconds"]
    for line in author_lines:
        if line.get("variant") == "build":
            yield line["set"].replace("-like", ""), "Jasper (authors)", line["build_seconds"]
    for line in ivf_lines:
        if line["what"] == "build":
            yield line["set"], ivf_rabitq_name(line), line["build_s"]


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


def fastest_build(points, built):
    """The fastest of `built`, (system, seconds), whose searches reach enough recall."""
    reached = {system for system, k, recall, _ in points if k == 10 and recall >= BUILD_RECALL}
    seconds, system = min((seconds, system) for system, seconds in built if system in reached)
    return {"seconds": round(seconds, 3), "system": system}


def summary(peer_lines, author_lines, ivf_lines):
    sets, built = {}, {}
    for name, *point in [*cagra(peer_lines), *authors(author_lines), *ivf_rabitq(ivf_lines)]:
        sets.setdefault(name, []).append(point)
    for name, *build in builds(peer_lines, author_lines, ivf_lines):
        built.setdefault(name, []).append(build)
    return {name: {
        "best": [found for recall in RECALLS if (found := best(points, 10, recall))],
        "best_100": [found for recall in RECALLS if (found := best(points, 100, recall))],
        "front": front([(recall, round(speed)) for _, k, recall, speed in points if k == 10]),
        "latency_us": latency(peer_lines, name),
        "build": fastest_build(points, built[name]),
    } for name, points in sorted(sets.items())}


def read(path):
    with open(path) as file:
        return [json.loads(line) for line in file]


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    result = summary(*map(read, sys.argv[1:]))
    rows = [f" {json.dumps(name)}: {{\n" + ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in parts.items()) + "\n }"
            for name, parts in result.items()]
    print("{\n" + ",\n".join(rows) + "\n}")
