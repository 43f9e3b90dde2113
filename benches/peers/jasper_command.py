"""Measures Jasper through its command."""
import json, os, subprocess, tempfile
import numpy as np
from files import read_rows, write_rows
from systems import K, NARROW, WIDTHS

BUILD_LABEL = "max_degree=64 build_beam_width=128 alpha=1.2, element as given; beam_width={}"


BEAM_WIDTHS = NARROW + WIDTHS
# Build options of each form of Jasper: exact distances, and the codes that the trial chooses for a CPU, if any.
FORMS = {"jasper": [], "jasper-codes": ["--quantization", "auto"]}


class Jasper:
    """Builds an index file; each round is one run of `jasper eval` over all beam widths."""

    def __init__(self, name, command, data, threads):
        form = FORMS[name]
        self.command, self.data, self.threads = command, data, str(threads)
        self.folder = tempfile.TemporaryDirectory(prefix="jasper-peers-")
        self.index, self.queries, self.truth = (os.path.join(self.folder.name, name) for name in (
            "index.jasper", os.path.basename(data.path("query")), "gt.ibin"))
        write_rows(self.queries, data.queries)
        write_rows(self.truth, data.truth)
        lines, cpu = self.run(
            "build", "--base", data.base_path, "--metric", data.metric, "--threads", self.threads, "--device", "cpu", "--output", self.index, *form)
        self.built = dict(
            build_seconds=lines[-1]["seconds"], build_cpu_seconds=cpu, build_mb=None, peak_mb=round(lines[-1]["peak_bytes"] / 2**20),
            settings=[" ".join([BUILD_LABEL.format(width), *form]) for width in BEAM_WIDTHS])

    def round(self, first):
        widths = ",".join(map(str, BEAM_WIDTHS))
        lines, _ = self.run(
            "eval", self.index, "--queries", self.queries, "--truth", self.truth, "-k", str(K),
            "--beam-widths", widths, "--threads", self.threads, "--device", "cpu")
        measured = []
        for width, line in zip(BEAM_WIDTHS, lines, strict=True):
            assert line["beam_width"] == width, line
            seconds = len(self.data.queries) / line["queries_per_second"]
            measured.append(dict(seconds=seconds, cpu_seconds=line["cpu_seconds"]))
            if first:
                measured[-1]["ids"] = self.results(width)
        return measured

    def results(self, width):
        """The ids returned by `jasper search`, so that recall is computed as for the peers."""
        output = os.path.join(self.folder.name, "results.ibin")
        self.run("search", self.index, "--queries", self.queries, "-k", str(K), "--beam-width", str(width), "--device", "cpu", "--output", output)
        return read_rows(output, np.uint32).astype(np.int64).tolist()

    def run(self, *arguments):
        """Runs the command; returns its JSON lines and CPU time in seconds."""
        process = subprocess.Popen([self.command, *arguments, "--json"], stdout=subprocess.PIPE, text=True)
        text = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise RuntimeError(f"jasper {arguments[0]} ended with {process.returncode}")
        lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        return lines, usage.ru_utime + usage.ru_stime

    def close(self):
        self.folder.cleanup()
