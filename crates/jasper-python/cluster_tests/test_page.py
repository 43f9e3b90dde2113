"""The Python blocks of the page of the book, as one program."""

import pathlib
import re

import pytest

PAGE = pathlib.Path(__file__).parents[3] / "docs/src/cluster.md"


@pytest.mark.filterwarnings("ignore")
def test_the_page_runs(nodes, tmp_path):
    from ray import serve

    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    # The nodes of the test are there already.
    program = "\n".join(blocks).replace('ray.init(address="auto")\n', "")
    assert program.count("ray.init") == 0
    names = {"PATH": str(tmp_path / "cluster")}
    try:
        exec(compile(program, str(PAGE), "exec"), names)
    finally:
        serve.shutdown()
        names["cluster"].close()
