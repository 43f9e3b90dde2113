"""The adapters for benchmark harnesses, against the interfaces that the harnesses declare.

The harnesses are not packages that can be installed. Their base classes and what their runners call are restated here,
from ann-benchmarks (2025-06, ann_benchmarks/algorithms/base/module.py and runner.py), big-ann-benchmarks (2025-12,
benchmark/algorithms/base.py, neurips23/*/base.py and */run.py), cuvs-bench (26.08, backends/base.py,
orchestrator/config_loaders.py and run/data_export.py) and VIBE (2026-08, vibe/algorithms/base/module.py, definitions.py
and runner.py).
"""

import importlib.util
import itertools
import json
import pathlib
import sys
import types

import numpy as np
import pytest
import yaml
from scipy.sparse import csr_matrix

import jasper

HARNESSES = pathlib.Path(__file__).parents[1] / "harnesses"
K = 10


class Modules:
    """Modules that exist during a test: those of the harness, and those of the adapter."""

    def __init__(self, monkeypatch):
        self.set = lambda name, module: monkeypatch.setitem(sys.modules, name, module)

    def add(self, name, **attributes):
        for parent in itertools.accumulate(name.split(".")[:-1], "{}.{}".format):
            if parent not in sys.modules:
                package = types.ModuleType(parent)
                package.__path__ = []
                self.set(parent, package)
        module = types.ModuleType(name)
        vars(module).update(attributes)
        self.set(name, module)

    def load(self, name, path):
        spec = importlib.util.spec_from_file_location(name, HARNESSES / path)
        module = importlib.util.module_from_spec(spec)
        self.set(name, module)
        spec.loader.exec_module(module)
        return module


@pytest.fixture
def modules(monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return Modules(monkeypatch)


@pytest.fixture(scope="module")
def queries(vectors):
    return vectors[::20] + np.float32(0.05)


# ann-benchmarks


class BaseANN:
    def done(self):
        pass

    def get_memory_usage(self):
        return 0.0

    def get_additional(self):
        return {}

    def __str__(self):
        return self.name


@pytest.fixture
def ann(modules):
    modules.add("ann_benchmarks.algorithms.base.module", BaseANN=BaseANN)
    return modules.load("ann_benchmarks.algorithms.jasper.module", "ann_benchmarks/jasper/module.py")


def ann_definitions(metric):
    """What the configuration asks for, as the harness expands it: (algorithm, arguments, query arguments)."""
    configuration = yaml.safe_load((HARNESSES / "ann_benchmarks/jasper/config.yml").read_text())
    for algorithm in configuration["float"]["any"]:
        for group in algorithm["run_groups"].values():
            arguments = [metric if one == "@metric" else one for one in algorithm["base_args"]]
            (widths,) = group["query_args"]
            for parameters in group["arg_groups"]:
                yield algorithm, [*arguments, parameters], widths


@pytest.mark.parametrize(("metric", "ours"), [("euclidean", "l2"), ("angular", "cosine"), ("ip", "ip")])
def test_ann_benchmarks_runs_every_group(ann, vectors, queries, metric, ours):
    truth = jasper.exact_search(vectors, queries, K, metric=ours)
    groups = 0
    for algorithm, arguments, widths in ann_definitions(metric):
        assert algorithm["module"] == "ann_benchmarks.algorithms.jasper"
        if algorithm["disabled"]:
            assert algorithm["name"] == "jasper-gpu" and arguments[1]["device"] == "cuda"
            continue
        groups += 1
        algo = getattr(ann, algorithm["constructor"])(*arguments)
        algo.fit(vectors)
        recalls = []
        for width in widths[:: len(widths) - 1]:
            algo.set_query_arguments(width)
            assert f"beam_width={width}" in str(algo)
            single = [algo.query(query, K) for query in queries]
            algo.prepare_batch_query(queries, K)
            algo.run_batch_query()
            batch = algo.get_batch_results()
            algo.batch_query(queries, K)
            for one, other, again in zip(single, batch, algo.get_batch_results(), strict=True):
                assert len(one) == len(set(one)) == K
                assert list(one) == list(other) == list(again)
            recalls.append(jasper.recall(np.array(batch), truth))
        assert recalls[0] <= recalls[1] and recalls[1] > 0.99
        algo.done()
    assert groups == 3


def test_ann_benchmarks_gets_no_neighbors_that_there_are_not(ann, vectors):
    algo = ann.Jasper("euclidean", {})
    algo.fit(vectors[:4].astype(np.float64))
    assert sorted(algo.query(vectors[0], K)) == [0, 1, 2, 3]
    algo.batch_query(vectors[:2], K)
    assert [sorted(keys) for keys in algo.get_batch_results()] == [[0, 1, 2, 3]] * 2


def test_ann_benchmarks_takes_zero_vectors(ann, vectors):
    rows = vectors.astype(np.float64)
    rows[::50] = 0
    algo = ann.Jasper("angular", {})
    algo.fit(rows)
    queries = rows[48:53]
    algo.batch_query(queries, K)
    found = algo.get_batch_results()
    assert [len(keys) for keys in found] == [K, K, 0, K, K]
    for query, keys in zip(queries, found):
        assert list(algo.query(query, K)) == list(keys) and not any(key % 50 == 0 for key in keys)
    with pytest.raises(jasper.ParameterError):
        algo.query(rows[1, :3], K)


# VIBE


class VibeBaseANN:
    def get_memory_usage(self):
        return 0.0

    def batch_query(self, X, n):
        raise NotImplementedError

    def get_batch_results(self):
        return self.res

    def get_additional(self):
        return {}

    def __str__(self):
        return self.name


@pytest.fixture
def vibe(modules):
    modules.add("vibe.algorithms.base.module", BaseANN=VibeBaseANN)
    return modules.load("vibe.algorithms.jasper_ann.module", "vibe/jasper_ann/module.py")


def vibe_definitions(point_type, metric):
    """`get_definitions`: (algorithm, arguments, groups of query arguments), all of them positional."""
    configuration = yaml.safe_load((HARNESSES / "vibe/jasper_ann/config.yml").read_text())
    for algorithm in configuration[point_type]["any"]:
        assert algorithm["singularity_image"] == "jasper_ann"
        assert algorithm["module"] == "vibe.algorithms.jasper_ann"
        base = [metric if argument == "@metric" else argument for argument in algorithm["base_args"]]
        for group in algorithm["run_groups"].values():
            arguments, query_arguments = (
                [list(values) for values in itertools.product(*group[name].values())] for name in ("args", "query_args")
            )
            for values in arguments:
                yield algorithm, [*base, *values], query_arguments


@pytest.mark.parametrize(
    ("point_type", "metric", "ours"),
    [
        ("float", "euclidean", "l2"),
        ("float", "cosine", "cosine"),
        ("float", "normalized", "cosine"),
        ("float", "ip", "ip"),
        ("uint8", "euclidean", "l2"),
        ("int8", "cosine", "cosine"),
    ],
)
def test_vibe_runs_every_group(vibe, vectors, queries, point_type, metric, ours):
    if point_type != "float":
        low, high = np.percentile(vectors, [0, 100])
        offset = 0 if point_type == "uint8" else -128
        vectors, queries = (
            np.clip(np.round((rows - low) / (high - low) * 255 + offset), offset, offset + 255).astype(point_type)
            for rows in (vectors, queries)
        )
    if metric == "normalized":
        vectors, queries = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (vectors, queries))
    truth = jasper.exact_search(vectors, queries, K, metric=ours)
    names = set()
    for algorithm, arguments, settings in vibe_definitions(point_type, metric):
        names.add(algorithm["name"])
        # With --gpu, the runner calls `batch_query` of these, and of no others.
        assert algorithm.get("gpu", False) == (arguments[1] == "cuda")
        if algorithm.get("gpu") or arguments[2] not in (16, 64):
            continue
        algo = getattr(vibe, algorithm["constructor"])(*arguments)
        algo.fit(vectors)
        recalls = []
        for setting in (settings[1], settings[-1]):
            algo.set_query_arguments(*setting)
            assert f"beam_width={setting[0]}" in str(algo)
            single = [algo.query(query, K) for query in queries]
            assert all(vectors[found].shape == (K, vectors.shape[1]) for found in single)
            algo.batch_query(queries, K)
            assert all((one == other).all() for one, other in zip(single, algo.get_batch_results(), strict=True))
            recalls.append(jasper.recall(np.array(single), truth))
        assert recalls[0] <= recalls[1] and recalls[1] > 0.99
    # The list has the authors' "jasper" already.
    assert names == {"jasper-ann", "jasper-ann-gpu"}


def test_vibe_gets_no_neighbors_that_there_are_not(vibe, vectors):
    algo = vibe.JasperANN("euclidean", "cpu", 32, 64)
    algo.fit(vectors[:4])
    algo.set_query_arguments(10)
    assert sorted(algo.query(vectors[0], K)) == [0, 1, 2, 3]
    algo.batch_query(vectors[:2], K)
    assert [sorted(keys) for keys in algo.get_batch_results()] == [[0, 1, 2, 3]] * 2


# big-ann-benchmarks


class BigBaseANN(BaseANN):
    def track(self):
        raise NotImplementedError

    def load_index(self, dataset):
        raise NotImplementedError

    def get_results(self):
        return self.res

    get_range_results = get_results


class BaseStreamingANN(BigBaseANN):
    def track(self):
        return "stream"

    def fit(self, dataset):
        raise NotImplementedError

    def load_index(self, dataset):
        return False


class BaseFilterANN(BigBaseANN):
    def track(self):
        return "filter"


class BaseOODANN(BigBaseANN):
    def track(self):
        return "ood"


class DataSet:
    """What adapters use of a data set of the harness."""

    dtype = "float32"

    def __init__(self, vectors, tags=None):
        self.vectors, self.tags = vectors, tags
        self.nb, self.d = vectors.shape

    def short_name(self):
        return "small"

    def search_type(self):
        return "knn" if self.tags is None else "knn_filtered"

    def get_data_in_range(self, start, end):
        return self.vectors[start:end]

    def get_dataset_metadata(self):
        return self.tags


@pytest.fixture
def big(modules, tmp_path, monkeypatch):
    """Makes the adapter of a track, for one data set."""

    def make(track, data=None):
        modules.add("benchmark.algorithms.base", BaseANN=BigBaseANN)
        modules.add("benchmark.datasets", DATASETS={"small": lambda: data})
        modules.add("neurips23.ood.base", BaseOODANN=BaseOODANN)
        modules.add("neurips23.filter.base", BaseFilterANN=BaseFilterANN)
        modules.add("neurips23.streaming.base", BaseStreamingANN=BaseStreamingANN)
        for name in ("ood", track):
            modules.add(f"neurips23.{name}.jasper.module")
            module = modules.load(f"neurips23.{name}.jasper.module", f"big_ann_benchmarks/{name}/jasper/module.py")
        return module.Jasper

    monkeypatch.chdir(tmp_path)
    return make


def big_definition(track, metric):
    """The arguments, and those of the queries, of the configuration of a track."""
    text = (HARNESSES / f"big_ann_benchmarks/{track}/jasper/config.yaml").read_text()
    algorithm = yaml.safe_load(text)["any"]["jasper"]
    assert algorithm["module"] == f"neurips23.{track}.jasper.module" and algorithm["constructor"] == "Jasper"
    group = algorithm["run-groups"]["base"]
    (parameters,) = json.loads(group["args"])
    return [metric, parameters], json.loads(group["query-args"])


def stored(results, shape):
    """Checks that results can be stored: `create_dataset("neighbors", (queries, count), "i", data=results)`."""
    assert results.shape == shape
    return results.astype("i")


def test_big_ann_ood_builds_saves_and_loads(big, vectors, queries):
    adapter = big("ood", DataSet(vectors))
    arguments, settings = big_definition("ood", "ip")
    algo = adapter(*arguments)
    assert not algo.load_index("small")
    algo.fit("small")
    algo.set_query_arguments(settings[-1])
    algo.query(queries, K)
    found = stored(algo.get_results(), (len(queries), K))
    assert jasper.recall(found, jasper.exact_search(vectors, queries, K, metric="ip")) > 0.99
    assert str(settings[-1]["beam_width"]) in str(algo)

    loaded = adapter(*arguments)
    assert loaded.load_index("small")
    loaded.set_query_arguments(settings[-1])
    loaded.query(queries, K)
    assert (loaded.get_results() == found).all()
    folder, prefix, (component,) = loaded.index_files_to_store("small")
    assert pathlib.Path(folder, prefix + component).is_file()
    assert not adapter(arguments[0], {**arguments[1], "max_degree": 16}).load_index("small")


def test_big_ann_range_searches(big, vectors, queries):
    algo = big("ood", DataSet(vectors))("euclidean", {})
    algo.fit("small")
    algo.range_query(queries, 2.0)
    lims, distances, keys = algo.get_range_results()
    assert lims[0] == 0 and lims[-1] == len(keys) == len(distances) > len(queries)
    for number, query in enumerate(queries):
        exact = ((vectors - query) ** 2).sum(axis=1)
        found = keys[lims[number] : lims[number + 1]]
        assert np.allclose(distances[lims[number] : lims[number + 1]], exact[found], rtol=1e-4, atol=1e-5)
        assert len(set(found) ^ set(np.flatnonzero(exact < 2.0))) <= 1


def test_big_ann_filters_by_tags(big, vectors, queries):
    rng = np.random.default_rng(5)
    tags = csr_matrix(rng.random((len(vectors), 6)) < [0.5, 0.3, 0.1, 0.02, 0.004, 0.5], dtype=np.int32)
    wanted = np.zeros((len(queries), 6), np.int32)
    for number, row in enumerate(wanted):
        row[rng.choice(6, 1 + number % 2, replace=False)] = 1
    algo = big("filter", DataSet(vectors, tags))(*big_definition("filter", "euclidean")[0])
    algo.fit("small")
    algo.filtered_query(queries, csr_matrix(wanted), K)
    found = stored(algo.get_results(), (len(queries), K))
    has = tags.toarray() > 0
    hits = possible = 0
    for query, row, keys in zip(queries, wanted, found):
        passing = np.flatnonzero(has[:, row > 0].all(axis=1))
        truth = passing[np.argsort(((vectors[passing] - query) ** 2).sum(axis=1))[:K]]
        assert set(keys[keys >= 0]) <= set(passing) and (keys >= 0).sum() == len(truth)
        hits += len(set(truth) & set(keys))
        possible += len(truth)
    assert hits > 0.99 * possible
    # A tag that no vector has.
    algo.filtered_query(queries[:1], csr_matrix(([1], [6], [0, 1]), shape=(1, 7)), K)
    assert (algo.get_results() == -1).all()


def test_big_ann_streaming_runs_a_runbook(big, vectors, queries):
    (arguments, settings) = big_definition("streaming", "euclidean")
    algo = big("streaming")(*arguments)
    algo.setup("float32", 1000, vectors.shape[1])
    algo.set_query_arguments(settings[0])
    now = {}

    def ids(start, end):
        return np.arange(start, end, dtype=np.uint32)

    def search():
        algo.query(queries, K)
        found = stored(algo.get_results(), (len(queries), K))
        tags = np.array(list(now))
        truth = jasper.exact_search(vectors[list(now.values())], queries, K).keys
        assert jasper.recall(found, tags[truth]) > 0.99

    # As `random-xs` in simple_replace_runbook.yaml.
    algo.insert(vectors[:750], ids(0, 750))
    now.update(zip(range(750), range(750)))
    search()
    for rows in (range(750, 1000), range(250)):
        algo.replace(vectors[rows.start : rows.stop], ids(0, 250))
        now.update(zip(range(250), rows))
        search()
    algo.delete(ids(250, 500))
    for tag in range(250, 500):
        del now[tag]
    search()
    algo.insert(vectors[300:400], ids(300, 400))
    now.update(zip(range(300, 400), range(300, 400)))
    search()
    # Deleted and replaced vectors are freed in time.
    assert len(algo.index) == 600 and algo.index.stats.tombstones < 0.1 * 600
    with pytest.raises(NotImplementedError):
        algo.fit("small")
    assert not algo.load_index("small")


# cuvs-bench


class Dataset:
    def __init__(self, vectors, queries, truth):
        self.training_vectors, self.query_vectors, self.groundtruth_neighbors = vectors, queries, truth
        self.distance_metric = "euclidean"


class IndexConfig:
    def __init__(self, name, algo, build_param, search_params, file):
        self.name, self.algo, self.file = name, algo, file
        self.build_param, self.search_params = build_param, search_params


class Result:
    """`BuildResult` and `SearchResult`, whose fields have these names and this order."""

    names = ()

    def __init__(self, *values, **fields):
        vars(self).update(zip(self.names, values), **fields)
        assert set(vars(self)) <= {*self.names, "metadata", "success", "error_message"}


class BuildResult(Result):
    names = ("index_path", "build_time_seconds", "index_size_bytes", "algorithm", "build_params")


class SearchResult(Result):
    names = ("neighbors", "distances", "search_time_ms", "queries_per_second", "recall", "algorithm", "search_params")


class ConfigLoader:
    def load_yaml_file(self, path):
        return yaml.safe_load(pathlib.Path(path).read_text())


class BenchmarkBackend:
    def __init__(self, config):
        self.config = config


class BenchmarkConfig:
    def __init__(self, indexes, backend_config):
        self.indexes, self.backend_config = indexes, backend_config


def compute_recall(neighbors, groundtruth, k):
    return jasper.recall(neighbors, groundtruth, k)


@pytest.fixture
def cuvs(modules):
    modules.add(
        "cuvs_bench.backends",
        __file__="cuvs_bench/backends/__init__.py",
        BenchmarkBackend=BenchmarkBackend,
        BuildResult=BuildResult,
        Dataset=Dataset,
        SearchResult=SearchResult,
        get_registry=None,
    )
    sys.modules["cuvs_bench"].backends = sys.modules["cuvs_bench.backends"]
    modules.add("cuvs_bench.backends._utils", compute_recall=compute_recall)
    modules.add(
        "cuvs_bench.orchestrator",
        BenchmarkConfig=BenchmarkConfig,
        BenchmarkOrchestrator=None,
        ConfigLoader=ConfigLoader,
        register_config_loader=None,
    )
    modules.add("cuvs_bench.orchestrator.config_loaders", IndexConfig=IndexConfig)
    return modules.load("jasper_bench", "cuvs_bench/jasper_bench.py")


def expand(parameters):
    """`expand_param_grid`."""
    return [dict(zip(parameters, values)) for values in itertools.product(*parameters.values())]


def test_cuvs_bench_sweeps_a_group(cuvs, vectors, queries, tmp_path):
    loader = cuvs.JasperConfigLoader("unused")
    assert loader.backend_type == "jasper"
    groups = loader._discover_algo_groups({}, "small", str(tmp_path), groups="base,test")
    assert [(algo, group) for algo, group, _, _ in groups] == [("jasper", "base"), ("jasper", "test")]
    with pytest.raises(ValueError, match="no such group: most; there are base"):
        loader._discover_algo_groups({}, "small", str(tmp_path), groups="most")
    expanded = [
        (algo, group, conf, expand(conf["build"]), expand(conf["search"]), meta) for algo, group, conf, meta in groups
    ]
    base, test = loader._build_benchmark_configs(None, {}, "small", str(tmp_path), expanded)
    assert [index.name for index in base.indexes] == [
        "jasper.max_degree32.build_beam_width128",
        "jasper.max_degree64.build_beam_width128",
    ]

    truth = jasper.exact_search(vectors, queries, 100).keys.astype(np.int32)
    backend, dataset = cuvs.JasperBackend(test.backend_config), Dataset(vectors, queries, truth)
    assert backend.algo == "jasper"
    backend.build(dataset, test.indexes, dry_run=True)
    assert not list(tmp_path.iterdir())
    built = backend.build(dataset, test.indexes)
    assert built.index_size_bytes == pathlib.Path(built.index_path).stat().st_size and built.build_time_seconds > 0
    # An index that exists is not built again.
    assert backend.build(dataset, test.indexes).build_time_seconds == 0

    found = backend.search(dataset, test.indexes, K, batch_size=16, search_threads=1)
    assert found.neighbors.shape == found.distances.shape == (len(queries), K) and found.recall > 0.99
    assert found.search_params == [{"beam_width": 16}, {"beam_width": 64}]
    # What `data_export` reads.
    (build,) = json.loads((tmp_path / "small/result/build/jasper,test.json").read_text())["benchmarks"]
    assert build["name"].split("/")[0] == test.indexes[0].name and build["max_degree"] == 32
    assert [*build][:4] == ["name", "threads", "real_time", "cpu_time"]
    rows = json.loads((tmp_path / f"small/result/search/jasper,test,k{K},bs16.json").read_text())["benchmarks"]
    assert [row["beam_width"] for row in rows] == [16, 64]
    for row in rows:
        assert {"name", "Recall", "items_per_second", "Latency"} <= set(row) and row["Latency"] > 0


def test_cuvs_bench_tunes_one_setting(cuvs, tmp_path):
    loader = cuvs.JasperConfigLoader("unused")
    (config,) = loader._build_benchmark_configs(
        None,
        {},
        "small",
        str(tmp_path),
        [("jasper", "base", {}, [{}], [{}], {})],
        _tune_mode=True,
        _tune_build_params={"max_degree": 40},
        _tune_search_params={"beam_width": 33},
        device="cuda",
    )
    (index,) = config.indexes
    assert (index.build_param, index.search_params) == ({"max_degree": 40}, [{"beam_width": 33}])
    assert config.backend_config["device"] == "cuda"


def test_cuvs_bench_takes_zero_vectors(cuvs, vectors, queries, tmp_path):
    rows, asked = vectors.copy(), queries.copy()
    rows[::50], asked[2] = 0, 0
    kept = np.flatnonzero(rows.any(axis=1))
    truth = np.full((len(asked), K), -1)
    truth[asked.any(axis=1)] = kept[jasper.exact_search(rows[kept], asked[asked.any(axis=1)], K, metric="cosine").keys]
    loader = cuvs.JasperConfigLoader("unused")
    (config,) = loader._build_benchmark_configs(
        None, {}, "small", str(tmp_path), [("jasper", "base", {}, [{}], [{"beam_width": 64}], {})]
    )
    backend, dataset = cuvs.JasperBackend(config.backend_config), Dataset(rows, asked, truth)
    dataset.distance_metric = "cosine"
    backend.build(dataset, config.indexes)
    found = backend.search(dataset, config.indexes, K)
    assert (found.neighbors[2] == -1).all() and (np.delete(found.neighbors, 2, 0) % 50 != 0).all()
