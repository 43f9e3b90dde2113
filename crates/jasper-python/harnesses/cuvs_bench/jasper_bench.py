"""Runs Jasper in cuvs-bench: registers its backend and its configuration, then runs a sweep.

    python jasper_bench.py --dataset sift-128-euclidean --dataset-path datasets --groups base --device cuda

Index files go to DATASET_PATH/DATASET/index and results to DATASET_PATH/DATASET/result, in the form of cuvs-bench's own
programs: `python -m cuvs_bench.run --data-export` makes CSV files of them and `python -m cuvs_bench.plot` draws them.
"""

import argparse
import json
import os
import pathlib
import time
from typing import Any

import cuvs_bench.backends
import jasper
import numpy as np
from cuvs_bench.backends import BenchmarkBackend, BuildResult, Dataset, SearchResult, get_registry
from cuvs_bench.backends._utils import compute_recall
from cuvs_bench.orchestrator import BenchmarkConfig, BenchmarkOrchestrator, ConfigLoader, register_config_loader
from cuvs_bench.orchestrator.config_loaders import IndexConfig

METRICS = {"euclidean": "l2", "inner_product": "ip", "cosine": "cosine"}
PARAMETERS = pathlib.Path(__file__).with_name("jasper.yaml")


class JasperConfigLoader(ConfigLoader):
    """One benchmark per group of `jasper.yaml`, with an index per combination of build parameters."""

    def __init__(self, config_path: str | os.PathLike[str] | None = None) -> None:
        # Where cuvs-bench has its data sets.
        self.config_path = config_path or pathlib.Path(cuvs_bench.backends.__file__).parents[1] / "config"

    @property
    def backend_type(self) -> str:
        return "jasper"

    def _discover_algo_groups(
        self, dataset_conf: dict[str, Any], dataset: str, dataset_path: str, **kwargs: Any
    ) -> list[tuple[str, str, dict[str, Any], dict[str, Any]]]:
        configuration = self.load_yaml_file(kwargs.get("algorithm_configuration") or PARAMETERS)
        wanted = kwargs.get("groups") or "base"
        missing = set(wanted.split(",")) - set(configuration["groups"])
        if missing:
            raise ValueError(f"no such group: {', '.join(missing)}; there are {', '.join(configuration['groups'])}")
        return [("jasper", group, configuration["groups"][group], {}) for group in wanted.split(",")]

    def _build_benchmark_configs(
        self,
        dataset_config: Any,
        dataset_conf: dict[str, Any],
        dataset: str,
        dataset_path: str,
        expanded_groups: list[Any],
        **kwargs: Any,
    ) -> list[BenchmarkConfig]:
        configs = []
        folder = pathlib.Path(dataset_path, dataset)
        for algo, group, _, builds, searches, _ in expanded_groups:
            if kwargs.get("_tune_mode"):
                builds, searches = [kwargs["_tune_build_params"]], [kwargs["_tune_search_params"] or {}]
            prefix = algo if group == "base" else f"{algo}_{group}"
            names = [".".join([prefix, *(f"{key}{value}" for key, value in build.items())]) for build in builds]
            indexes = [
                IndexConfig(name, algo, build, searches, str(folder / "index" / f"{name}.jasper"))
                for name, build in zip(names, builds)
            ]
            backend = {
                "name": names[0],
                "group": group,
                "device": kwargs.get("device", "cpu"),
                "results": str(folder / "result"),
            }
            configs.append(BenchmarkConfig(indexes, backend))
        return configs


class JasperBackend(BenchmarkBackend):
    """Builds and searches in this process. Devices are found by Jasper, so that no package of RAPIDS is needed."""

    @property
    def algo(self) -> str:
        return "jasper"

    def build(
        self, dataset: Dataset, indexes: list[IndexConfig], force: bool = False, dry_run: bool = False
    ) -> BuildResult:
        rows, total, size = [], 0.0, 0
        for config in indexes:
            if dry_run:
                print(f"would build {config.name} into {config.file}")
                continue
            if force or not os.path.exists(config.file):
                os.makedirs(os.path.dirname(config.file), exist_ok=True)
                start = time.perf_counter()
                index = jasper.Index.build(
                    dataset.training_vectors,
                    metric=METRICS[dataset.distance_metric],
                    skip_zero_vectors=True,
                    device=self.config["device"],
                    **config.build_param,
                )
                seconds = time.perf_counter() - start
                index.save(config.file)
                total += seconds
                rows.append({
                    "name": f"{config.name}/process_time/real_time",
                    "threads": 1,
                    "real_time": seconds,
                    "cpu_time": seconds,
                    "time_unit": "s",
                    "index_size": os.path.getsize(config.file),
                    **config.build_param,
                })
            size += os.path.getsize(config.file)
        if rows:
            self.write("build", f"jasper,{self.config['group']}.json", rows)
        first = indexes[0]
        return BuildResult(first.file, total, size, self.algo, first.build_param)

    def search(
        self,
        dataset: Dataset,
        indexes: list[IndexConfig],
        k: int,
        batch_size: int = 10000,
        mode: str = "latency",
        force: bool = False,
        search_threads: int | None = None,
        dry_run: bool = False,
    ) -> SearchResult:
        queries, rows, found = dataset.query_vectors, [], None
        for config in indexes if not dry_run else []:
            index = jasper.Index.open(config.file, device=self.config["device"], threads=search_threads)
            for parameters in config.search_params:
                found, seconds = self.measure(index, queries, k, batch_size, parameters)
                truth = dataset.groundtruth_neighbors
                rows.append({
                    "name": f"{config.name}/process_time/real_time",
                    "real_time": np.mean(seconds),
                    "time_unit": "s",
                    "Latency": np.mean(seconds),
                    "items_per_second": len(queries) / sum(seconds),
                    "Recall": compute_recall(found.keys, truth, k) if truth is not None else 0.0,
                    "k": k,
                    "n_queries": batch_size,
                    **parameters,
                })
        if rows:
            self.write("search", f"jasper,{self.config['group']},k{k},bs{batch_size}.json", rows)
        best = max(rows, key=lambda row: row["Recall"], default={})
        return SearchResult(
            neighbors=found.keys if found else np.empty((0, k), np.int64),
            distances=found.distances if found else np.empty((0, k), np.float32),
            search_time_ms=1e3 * sum(row["real_time"] for row in rows),
            queries_per_second=best.get("items_per_second", 0.0),
            recall=best.get("Recall", 0.0),
            algorithm=self.algo,
            search_params=[parameters for config in indexes for parameters in config.search_params],
            metadata={"results": rows},
        )

    def measure(
        self, index: jasper.Index, queries: np.ndarray, k: int, batch_size: int, parameters: dict[str, Any]
    ) -> tuple[jasper.Matches, list[float]]:
        """The matches of all queries, and the seconds that each batch took."""
        # A zero query has no angle to anything, and finds nothing.
        searched = np.any(queries, axis=1) if index.metric == "cosine" else np.full(len(queries), True)
        found = jasper.Matches(np.full((len(queries), k), -1), np.full((len(queries), k), np.inf, np.float32))
        queries = queries[searched]
        index.search(queries[:batch_size], k, **parameters)
        parts, seconds = [], []
        for start in range(0, len(queries), batch_size):
            began = time.perf_counter()
            parts.append(index.search(queries[start : start + batch_size], k, **parameters))
            seconds.append(time.perf_counter() - began)
        for whole, part in zip(found, zip(*parts)):
            whole[searched] = np.concatenate(part)
        return found, seconds

    def write(self, kind: str, name: str, rows: list[dict[str, Any]]) -> None:
        folder = pathlib.Path(self.config["results"], kind)
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / name
        if kind == "build" and file.exists():
            # Keeps the times of indexes that were not built this time.
            built = {row["name"] for row in rows}
            rows = [row for row in json.loads(file.read_text())["benchmarks"] if row["name"] not in built] + rows
        file.write_text(json.dumps({"context": {"jasper": jasper.__version__}, "benchmarks": rows}))


def register() -> None:
    """Makes the backend "jasper" known to cuvs-bench."""
    if not get_registry().is_registered("jasper"):
        get_registry().register("jasper", JasperBackend)
        register_config_loader("jasper", JasperConfigLoader)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", required=True, help="name of the data set")
    parser.add_argument("--dataset-path", required=True, help="folder of the data sets")
    parser.add_argument("--dataset-configuration", help="YAML file of data sets, instead of that of cuvs-bench")
    parser.add_argument("--groups", default="base", help="groups of jasper.yaml, with commas between")
    parser.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1 or auto")
    parser.add_argument("--count", type=int, default=10, help="neighbors per query")
    parser.add_argument("--batch-size", type=int, default=10000, help="queries per call")
    parser.add_argument("--search-threads", type=int, help="threads; all CPUs if not given")
    parser.add_argument("--force", action="store_true", help="build indexes that exist")
    options = vars(parser.parse_args())
    register()
    results = BenchmarkOrchestrator("jasper").run_benchmark(build=True, search=True, **options)
    for result in results:
        for row in getattr(result, "metadata", {}).get("results", []):
            print(f"{row['name'].split('/')[0]}: recall {row['Recall']:.4f}, {row['items_per_second']:.0f} queries/s")


if __name__ == "__main__":
    main()
