#!/usr/bin/env python3
"""Cuts a set into shards by hash and by clusters, and compares recall and fan-out with the model of the book's page
"Beyond one host" (docs/notebook/scale.md).

    python3 simulate_shards.py --vectors 200000 --shards 20                                      # numpy
    python3 simulate_shards.py --vectors 100000000 --shards 25 100 --device cuda:0 --json s.json  # torch

Rows are those of make_sets.py, and are made a tile at a time and not stored, so that memory grows by 16 bytes per vector
and number of shards only. Shards answer exactly: what is measured is the recall that the placement of the vectors and
the choice of shards allow. The tables are Markdown, the JSON has all figures.

  - `hash`: the hash of a key is its shard, a query goes to all shards.
  - `clustered`: k-means on a sample makes many small clusters, which are packed into shards of about equal size. A
    vector also goes to the shard of another cluster if that is at most (1 + epsilon) times as far as the nearest.
    A query visits the shards that are nearest by a *routing rule*: by the mean of a shard, by its nearest small
    cluster, or by its nearest sampled vector.
"""
import argparse, json, math, sys, time
import numpy as np

from make_sets import Maker, host, torch

# Changes to the family "deep" of make_sets.py: "single" has one cluster, "uniform" is noise on the sphere.
SETS = {"deep": {}, "single": {"clusters": 1}, "uniform": {"clusters": 1, "noise": 1e3}}
VISITS = [1, 2, 4, 8, 16, 32]
SPILLS = [(0.0, 1), (0.05, 2), (0.1, 2), (0.1, 4)]  # epsilon, and the most copies of a vector
COPIES = max(copies for _, copies in SPILLS)
NEAREST = 16  # clusters among which the shards of copies are sought
TARGETS = [0.95, 0.99]
RULES = ["means", "clusters", "sample"]


# ---------------------------------------------------------------- arrays of numpy or torch
def library(array):
    return np if isinstance(array, np.ndarray) else torch


def squared(a, b):
    """Squared distances of all pairs of rows."""
    d = a @ (-2 * b.T)
    d += (b * b).sum(1)
    d += (a * a).sum(1)[:, None]
    return d


def smallest(d, k):
    """The k smallest of each row in ascending order, and their columns."""
    if library(d) is torch:
        return torch.min(d, 1, keepdim=True) if k == 1 else torch.topk(d, k, dim=1, largest=False)
    j = d.argmin(1)[:, None] if k == 1 else np.argpartition(d, k - 1, axis=1)[:, :k]
    j = np.take_along_axis(j, np.argsort(np.take_along_axis(d, j, 1), axis=1, kind="stable"), 1)
    return np.take_along_axis(d, j, 1), j


def take(a, columns):
    return torch.gather(a, 1, columns) if library(a) is torch else np.take_along_axis(a, columns, 1)


def like(array, of):
    """A numpy array, on the device of `of`."""
    return array if library(of) is np else torch.from_numpy(array).to(of.device)


def tiles(count, size):
    return [(start, min(count, start + size)) for start in range(0, count, size)]


def joined(arrays, axis=0):
    return torch.cat(arrays, axis) if library(arrays[0]) is torch else np.concatenate(arrays, axis)


# ---------------------------------------------------------------- placement
def nearest_centers(x, centers, tile):
    return joined([smallest(squared(x[a:b], centers), 1)[1][:, 0] for a, b in tiles(len(x), tile)])


def kmeans(x, count, rounds, tile):
    """Centers, and the number of rows of each."""
    centers = x[:count] + 0  # rows are in random order
    for _ in range(rounds):
        lib, sums, labels = library(x), centers * 0, nearest_centers(x, centers, tile)
        if lib is torch:
            sums.index_add_(0, labels, x)
        else:
            np.add.at(sums, labels, x)
        sizes = lib.bincount(labels, minlength=count)
        filled = sizes > 0
        centers[filled] = sums[filled] / sizes[filled][:, None]
    return centers, host(sizes)


def pack(centers, sizes, shards, slack, rounds=12):
    """The shard of each cluster: k-means of the clusters, in which a shard is full at (1 + slack) times the mean size.
    Clusters that have most to lose from a second choice choose first."""
    room = sizes.sum() / shards * (1 + slack)
    heads = centers[np.random.default_rng(1).choice(len(centers), shards, replace=False, p=sizes / sizes.sum())]
    for _ in range(rounds):
        d = squared(centers, heads)
        choices, two = np.argsort(d, axis=1), np.sort(d, axis=1)[:, :2]
        chosen, load = np.zeros(len(centers), np.int64), np.zeros(shards)
        for cluster in np.argsort(two[:, 0] - two[:, 1]):
            free = choices[cluster][load[choices[cluster]] + sizes[cluster] <= room]
            chosen[cluster] = free[0] if len(free) else load.argmin()
            load[chosen[cluster]] += sizes[cluster]
        weights = (chosen[:, None] == np.arange(shards)) * (sizes + 1e-9)[:, None]
        heads = (weights.T @ centers / (weights.sum(0) + 1e-9)[:, None]).astype(np.float32)
    return chosen, heads


class Placement:
    """Clusters packed into shards, and the shards of each vector."""

    def __init__(self, vectors, shards, centers, sizes, slack):
        chosen, heads = pack(host(centers), sizes, shards, slack)
        self.shards, self.of_cluster, self.means = shards, like(chosen, centers), like(heads, centers)
        lib = library(centers)
        place = {} if lib is np else {"device": centers.device}
        self.copies = lib.zeros((vectors, COPIES), dtype=lib.int16, **place)
        self.ratios = lib.zeros((vectors, COPIES), dtype=lib.float16, **place)
        self.loads = {spill: np.zeros(shards, np.int64) for spill in SPILLS}

    def add(self, start, distances, clusters):
        """Places rows, given their nearest clusters."""
        lib, shards = library(distances), self.of_cluster[clusters]
        distances = abs(distances) + 1e-12  # differences of rounding may be below zero
        ratios = lib.sqrt(distances / distances[:, :1])
        for j in range(1, shards.shape[1]):
            ratios[(shards[:, :j] == shards[:, j : j + 1]).any(1), j] = math.inf
        ratios, columns = smallest(ratios, COPIES)
        shards = take(shards, columns)
        self.copies[start : start + len(shards)], self.ratios[start : start + len(shards)] = shards, ratios
        for (epsilon, copies), loads in self.loads.items():
            chosen = shards[:, :copies][ratios[:, :copies] <= 1 + epsilon]
            loads += host(lib.bincount(chosen, minlength=self.shards))

    def of(self, ids, epsilon, copies):
        """The shards of each vector, -1 where it has fewer."""
        at = like(ids.reshape(-1), self.copies)
        shards, ratios = (host(a[at])[:, :copies].astype(np.float32) for a in (self.copies, self.ratios))
        return np.where(ratios <= np.float16(1 + epsilon), shards, -1).astype(np.int64).reshape(*ids.shape, copies)


def distances_to_shards(queries, points, shard_of_point, shards, tile=8192):
    """Squared distances of queries to the nearest point of each shard."""
    near = np.full((len(queries), shards), np.inf, np.float32)
    for shard in range(shards):
        of_shard = points[shard_of_point == shard]
        for a, b in tiles(len(queries), tile) if len(of_shard) else []:
            near[a:b, shard] = host(library(points).amin(squared(queries[a:b], of_shard), 1))
    return np.maximum(near, 0)


# ---------------------------------------------------------------- what shards find
def ranks(near):
    """The place of each shard in the order in which a query visits them."""
    return np.argsort(np.argsort(near, axis=1, kind="stable"), axis=1, kind="stable")


def first_visit(shards, rank):
    """When each true neighbor is first seen: the least rank of its shards."""
    of_copies = np.take_along_axis(rank[:, None, :], np.maximum(shards, 0), 2)
    return np.where(shards < 0, rank.shape[1], of_copies).min(2)


def fan_out(visit, recall, shards):
    """The fewest shards that give a recall."""
    found = np.searchsorted(visit.reshape(-1), range(1, shards + 1), sorter=np.argsort(visit, axis=None)) / visit.size
    return int(np.argmax(found >= recall)) + 1


def pruned(near, rank, visit, recall):
    """Visits by distance instead of number: those at most t times as far as the nearest. Their mean, their 99th
    percentile and t, for the least t that gives a recall."""
    ratio = np.sqrt(near / np.maximum(near.min(1, keepdims=True), 1e-12))
    in_order = np.sort(ratio, axis=1)
    needed = np.take_along_axis(in_order, np.minimum(visit, near.shape[1] - 1), 1)
    bound = np.sort(needed, axis=None)[min(needed.size - 1, math.ceil(recall * needed.size) - 1)]
    visited = (ratio <= bound).sum(1)
    return {"mean": float(visited.mean()), "p99": float(np.percentile(visited, 99)), "ratio": float(bound)}


def best_fan_out(shards, count, recall):
    """The fewest shards if each query knew where its neighbors are, taking the one with most of the rest each time."""
    there = (shards[:, :, :, None] == np.arange(count)).any(2)
    missing, visits, found = np.ones(there.shape[:2], bool), 0, 0.0
    while found < recall:
        best = (there & missing[:, :, None]).sum(1).argmax(1)
        missing &= ~np.take_along_axis(there, best[:, None, None], 2)[:, :, 0]
        visits, found = visits + 1, 1 - missing.mean()
    return visits


def binomial_recall(k, shards, asked):
    """The model of a merge of the nearest `asked` of each shard: neighbor j is among them if at most asked - 1 of the j
    nearer ones are in its shard."""
    p = 1 / shards
    terms = [[math.comb(j, i) * p**i * (1 - p) ** (j - i) for i in range(min(asked, j + 1))] for j in range(k)]
    return sum(map(sum, terms)) / k


def of_hash(ids, shards, asked_recall, shard_recall):
    """Hash placement: the model's `asked` for a recall, and recall predicted and measured."""
    k, rng = ids.shape[1], np.random.default_rng(3)
    keys = ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    shard = ((keys ^ (keys >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9) >> np.uint64(33)) % np.uint64(shards)
    before = np.stack([(shard[:, :j] == shard[:, j : j + 1]).sum(1) for j in range(k)], 1)
    rows = []
    for asked in range(1, k + 1):
        model = binomial_recall(k, shards, asked)
        got = before < asked
        found = got & (rng.random(got.shape) < shard_recall)
        rows.append({"asked": asked, "model": model, "measured": got.mean(), "shard_recall": shard_recall,
                     "model_of_inexact": model * shard_recall, "measured_of_inexact": found.mean()})
        if model >= asked_recall:
            break
    down = np.stack([(shard == s).mean(1) for s in range(shards)], 1)
    return {"shards": shards, "merge": rows, "one_down": one_down(down)}


def one_down(lost):
    """`lost[query, shard]`: the share of a query's neighbors that only this shard has."""
    return {"mean_lost": lost.mean(), "lose_half": (lost >= 0.5).mean()}


def of_clusters(placement, near, near_load, truth, shard_recall):
    """Everything about one placement; `truth` is the neighbors among each prefix of the set."""
    result, count, final = [], placement.shards, max(truth)
    for spill, loads in placement.loads.items():
        shards = {n: placement.of(ids, *spill) for n, ids in truth.items()}
        row = {"shards": count, "epsilon": spill[0], "most_copies": spill[1], "copies": loads.sum() / final,
               "balance": loads.max() / loads.mean()}
        only = (shards[final] >= 0).sum(2) == 1
        lost = [((shards[final][:, :, 0] == s) & only).mean(1) for s in range(count)]
        row["one_down"] = one_down(np.stack(lost, 1))
        row["best"] = {target: best_fan_out(shards[final], count, target) for target in TARGETS}
        for rule in RULES:
            rank = ranks(near[rule])
            visit = {n: first_visit(of, rank) for n, of in shards.items()}
            measured = {n: {v: float((of < v).mean()) for v in VISITS if v < count} for n, of in visit.items()}
            needed = {target: fan_out(visit[final], target, count) for target in TARGETS}
            n95 = needed[TARGETS[0]]
            rng = np.random.default_rng(5)
            ranked = np.take_along_axis(rank[:, None, :], np.maximum(shards[final], 0), 2)
            visited = (ranked < n95) & (shards[final] >= 0)
            inexact = (visited & (rng.random(visited.shape) < shard_recall)).any(2).mean()
            load = (ranks(near_load[rule]) < n95).sum(0)
            row[rule] = {
                "recall": measured, "model": extrapolate(measured), "fan_out": needed,
                "pruned": {target: pruned(near[rule], rank, visit[final], target) for target in TARGETS},
                "inexact": {"model": float((visit[final] < n95).mean()) * shard_recall, "measured": inexact},
                "load": {"max_by_mean": load.max() / load.mean(),
                         "by_chance": 1 + math.sqrt(2 * math.log(count) / load.mean())}}
        result.append(row)
    return result


def extrapolate(measured):
    """The model of recall by the size of a set: what is missed at a fan-out is a power of the number of vectors, fitted
    to the two smaller sizes. Predicts the largest."""
    small, middle, large = sorted(measured)
    steps = math.log(large / middle) / math.log(middle / small)
    missed = {v: (1 - measured[small][v], 1 - measured[middle][v]) for v in measured[large]}
    return {v: 1 - b * (b / a) ** steps if a and b else 1 - b for v, (a, b) in missed.items()}


# ---------------------------------------------------------------- output
def table(head, rows):
    print("\n| " + " | ".join(head) + " |\n| " + " | ".join(["---"] + ["---:"] * (len(head) - 1)) + " |")
    for row in rows:
        print("| " + " | ".join(row) + " |")


def signed(measured, model):
    return f"{measured:.4f} ({measured - model:+.4f})"


def spill(row):
    return f"{row['epsilon']}, {row['most_copies']}"


def report(result):
    """Tables of the hash, then of the clusters, for each number of shards. In parentheses: measured less the model."""
    for of in result["hash"]:
        inexact = of["merge"][0]["shard_recall"]
        table([f"hash, {of['shards']} shards: asked of each", "recall", f"with shards of recall {inexact}"],
              [[str(r["asked"]), signed(r["measured"], r["model"]),
                signed(r["measured_of_inexact"], r["model_of_inexact"])] for r in of["merge"]])
        down = of["one_down"]
        print(f"\nOne shard down: {signed(down['mean_lost'], 1 / of['shards'])} of recall lost; "
              f"{down['lose_half']:.4f} of queries lose half.")
    for count in result["arguments"]["shards"]:
        rows = [row for row in result["clustered"] if row["shards"] == count]
        table([f"{count} clustered shards: epsilon, most copies", "copies", "largest shard / mean",
               *(f"perfect router, {t}" for t in TARGETS), "lost with one down", "queries that lose half"],
              [[spill(row), f"{row['copies']:.3f}", f"{row['balance']:.3f}", *map(str, row["best"].values()),
                f"{row['one_down']['mean_lost']:.4f}", f"{row['one_down']['lose_half']:.4f}"] for row in rows])
        final = max(rows[0]["means"]["recall"])
        head = [*(f"{v} visited" for v in rows[0]["means"]["recall"][final]), *(f"for {t}" for t in TARGETS),
                *(f"for {t}, pruned: mean, p99" for t in TARGETS), "busiest shard / mean, by chance", "inexact shards"]
        table([f"{count} shards: epsilon, most copies", "routing by", *head],
              [[spill(row), rule, *(signed(r["recall"][final][v], r["model"][v]) for v in r["model"]),
                *map(str, r["fan_out"].values()), *(f"{p['mean']:.1f}, {p['p99']:.0f}" for p in r["pruned"].values()),
                f"{r['load']['max_by_mean']:.2f}, {r['load']['by_chance']:.2f}",
                signed(r["inexact"]["measured"], r["inexact"]["model"])]
               for row in rows for rule, r in ((rule, row[rule]) for rule in RULES)])
    few, many = (pick(result["arguments"]["shards"]) for pick in (min, max))
    if few < many:
        of = {(row["shards"], spill(row)): row["clusters"] for row in result["clustered"]}
        table([f"exponent of the fan-out from {few} to {many} shards: epsilon, most copies",
               *(f"for {t}" for t in TARGETS), *(f"for {t}, pruned" for t in TARGETS)],
              [[spill(row), *(f"{growth(of, spill(row), few, many, pick, t):.2f}"
                              for pick in (lambda r, t: r["fan_out"][t], lambda r, t: r["pruned"][t]["mean"])
                              for t in TARGETS)] for row in result["clustered"] if row["shards"] == few])


def growth(of, kind, few, many, pick, target):
    """The model of the fan-out by the number of shards, at equal recall, is a power. Its exponent."""
    return math.log(pick(of[many, kind], target) / pick(of[few, kind], target)) / math.log(many / few)


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--set", choices=SETS, default="deep")
    ap.add_argument("--vectors", type=int, default=200_000)
    ap.add_argument("--shards", type=int, nargs="+", default=[20])
    ap.add_argument("--clusters", type=int, help="small clusters, 64 per shard unless given")
    ap.add_argument("--sample", type=int, help="vectors for k-means and routing: 64 per cluster unless given")
    ap.add_argument("--queries", type=int, default=1000)
    ap.add_argument("--load-queries", type=int, default=20_000, help="queries whose load on the shards is counted")
    ap.add_argument("--k", type=int, default=10)
    ap.add_argument("--slack", type=float, default=0.05, help="how much larger than the mean a shard may be")
    ap.add_argument("--shard-recall", type=float, default=0.95, help="for the merge of inexact answers")
    ap.add_argument("--tile", type=int, default=65_536, help="vectors made and placed at a time")
    ap.add_argument("--device", default="cpu", help="cpu: numpy; cuda:0 and others: torch")
    ap.add_argument("--json")
    args = ap.parse_args()
    clusters = args.clusters or 64 * max(args.shards)
    sample_rows = min(args.vectors, args.sample or 64 * clusters)
    began, log = time.time(), lambda what: print(f"{time.time() - began:7.1f} s  {what}", file=sys.stderr, flush=True)

    maker = Maker("deep", args.device, **SETS[args.set])
    queries, load_queries = maker.queries(args.queries), maker.queries(args.load_queries, start=args.queries)
    sample = maker.base(args.vectors, sample_rows)  # rows beyond those of the set
    centers, sizes = kmeans(sample, clusters, 10, args.tile)
    log(f"{clusters} clusters from {sample_rows} vectors")
    placements = [Placement(args.vectors, count, centers, sizes, args.slack) for count in args.shards]
    log("clusters packed into shards")

    of_sample = nearest_centers(sample, centers, args.tile)
    marks = [args.vectors // 16, args.vectors // 4, args.vectors]
    best = ids = None
    truth = {}
    edges = sorted({*range(0, args.vectors, args.tile), *marks})
    for start, end in zip(edges, edges[1:]):
        rows = maker.base(start, end - start)
        near, at = smallest(squared(queries, rows), min(args.k, len(rows)))
        at = at + start
        if ids is not None:
            near, at = joined([best, near], 1), joined([ids, at], 1)
            near, columns = smallest(near, min(args.k, near.shape[1]))
            at = take(at, columns)
        best, ids = near, at
        nearest = smallest(squared(rows, centers), min(NEAREST, clusters))
        for placement in placements:
            placement.add(start, *nearest)
        if end in marks:
            truth[end] = host(ids)
            log(f"{end} vectors placed")

    result = {"arguments": vars(args), "clusters": clusters, "sample": sample_rows, "hash": [], "clustered": []}
    for placement in placements:
        count = placement.shards
        points = {"means": (placement.means, like(np.arange(count), centers)),
                  "clusters": (centers, placement.of_cluster), "sample": (sample, placement.of_cluster[of_sample])}
        near, near_load = ({rule: distances_to_shards(q, *points[rule], count) for rule in RULES}
                           for q in (queries, load_queries))
        result["hash"].append(of_hash(truth[args.vectors], count, 0.999, args.shard_recall))
        result["clustered"] += of_clusters(placement, near, near_load, truth, args.shard_recall)
        log(f"{count} shards evaluated")
    result["seconds"] = time.time() - began
    report(result)
    if args.json:
        with open(args.json, "w") as file:
            json.dump(result, file, indent=1, default=float)


if __name__ == "__main__":
    main()
