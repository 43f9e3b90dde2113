"""Measures cuVS CAGRA on sets that the program `distributions` measures Jasper on, on the same GPU.

    pip install cuvs-cu13==26.10.* cupy-cuda13x torch
    cargo build --release -p jasper-benches --bin distributions
    target/release/distributions sorted --rows 1000000 --device cuda:0 --codes
    target/release/distributions sorted --rows 1000000 --device cuda:0 --write local/sets
    python benches/peers/cagra.py local/sets/sorted >> local/distributions.jsonl

Prints one JSON object per setting. Graphs are built by NN-descent, with 64 edges of 128 neighbors. Queries and results are
in device memory, 10,000 queries are a batch, and the time is the median of some rounds by events. Cosine is L2 of
normalized rows.
"""
import json, os, statistics, sys, time
import cupy, cuvs, rmm, torch
from cuvs.common import Resources
from cuvs.neighbors import cagra
from files import Set

K, QUERIES, ROUNDS = 10, 10_000, 5
# (algorithm, length of the list of candidates, expansions per step, most iterations or 0)
SETTINGS = [
    *[("single_cta", 32, 1, most) for most in (12, 16, 20, 26)],
    *[("single_cta", length, 1, 0) for length in (32, 64, 96, 128, 192, 256, 384, 512)],
    *[("single_cta", length, 4, 0) for length in (128, 256, 512)],
    *[("multi_cta", length, 1, 0) for length in (128, 512)],
]


def seconds(call, stream):
    """The median time of a call."""
    times = []
    call()
    for _ in range(ROUNDS):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record(stream)
        call()
        end.record(stream)
        end.synchronize()
        times.append(begin.elapsed_time(end) / 1e3)
    return statistics.median(times)


def distances(rows, queries, ids, metric):
    """Distances in 64 bits of each query to the rows of its ids."""
    parts = []
    for query, found in zip(queries.split(500), ids.split(500)):
        found, query = rows[found].double(), query.double().unsqueeze(1)
        parts.append(-(found * query).sum(2) if metric == "ip" else ((found - query) ** 2).sum(2))
    return torch.cat(parts)


def recall(rows, queries, found, bound, metric):
    """The share of distinct results that are no farther than `bound`, the distance of the true neighbor of rank K."""
    found = found.sort(1).values
    is_new = torch.ones_like(found, dtype=torch.bool)
    is_new[:, 1:] = found[:, 1:] != found[:, :-1]
    is_new &= (found >= 0) & (found < len(rows))
    near = distances(rows, queries, found.clamp(0, len(rows) - 1), metric) <= bound + 1e-9 * bound.abs()
    return (near & is_new).double().mean().item()


def measure(folder, resources, stream):
    data = Set(folder, QUERIES)
    with open(os.path.join(folder, "meta.json")) as file:
        is_half = json.load(file).get("element") == "f16"
    element = torch.float16 if is_half else getattr(torch, data.dtype.name)
    rows, queries = (torch.from_numpy(part).cuda() for part in (data.base, data.queries))
    if data.metric == "cosine":
        rows, queries = (torch.nn.functional.normalize(part.float()) for part in (rows, queries))
    given, asked = rows, queries  # recall is of distances before rows are rounded
    rows, queries = rows.to(element), queries.to(element)
    truth = torch.from_numpy(data.truth[:, K - 1 : K].astype("int64")).cuda()
    bound = distances(given, asked, truth, data.metric)

    begun = time.perf_counter()
    index = cagra.build(cagra.IndexParams(metric="inner_product" if data.metric == "ip" else "sqeuclidean",
                                          graph_degree=64, intermediate_graph_degree=128, build_algo="nn_descent"), rows)
    torch.cuda.synchronize()
    built = time.perf_counter() - begun
    ids, far = (cupy.empty((len(queries), K), kind) for kind in (cupy.uint32, cupy.float32))
    for algorithm, length, width, most in SETTINGS:
        params = cagra.SearchParams(algo=algorithm, itopk_size=length, search_width=width, max_iterations=most)
        search = lambda: cagra.search(params, index, queries, K, neighbors=ids, distances=far, resources=resources)
        try:
            took = seconds(search, stream)
        except Exception as error:  # some settings have no kernel for some dimensions
            print(f"{data.name}, {algorithm} {length}: {error}", file=sys.stderr)
            continue
        found = torch.from_dlpack(ids.view(cupy.int32)).long()
        print(json.dumps(dict(
            set=data.name, points=len(rows), dimension=rows.shape[1], dtype=str(element).removeprefix("torch."),
            metric=data.metric, system="cuvs-cagra", version=cuvs.__version__, device_name=torch.cuda.get_device_name(),
            build_seconds=round(built, 2), setting=f"{algorithm} itopk={length} width={width} iterations={most or 'auto'}",
            recall=round(recall(given, asked, found, bound, data.metric), 5), qps=round(len(queries) / took))), flush=True)


def main():
    rmm.mr.set_current_device_resource(rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource(), initial_pool_size=8 << 30))
    # CAGRA runs on the default stream, for which that of the thread (handle 2) waits.
    resources, stream = Resources(), torch.cuda.ExternalStream(2)
    for folder in sys.argv[1:]:
        measure(folder, resources, stream)
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
