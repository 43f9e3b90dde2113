"""Notebooks run, and their stored outputs and pages are those of a run."""

import importlib.util
import json
import pathlib

import pytest

PATH = pathlib.Path(__file__).parents[1] / "notebooks/render.py"
SPEC = importlib.util.spec_from_file_location("render", PATH)
render = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(render)


@pytest.mark.parametrize("path", render.notebooks(), ids=lambda path: path.stem)
def test_outputs_and_page_are_up_to_date(path, monkeypatch):
    monkeypatch.chdir(render.ROOT)
    notebook = render.run(json.loads(path.read_text()))
    again = "run python notebooks/render.py"
    assert path.read_text() == render.dump(notebook), again
    assert (render.ROOT / f"docs/src/{path.stem}.md").read_text() == render.page(notebook, path.stem), again


def test_there_are_notebooks():
    assert [path.stem for path in render.notebooks()] == ["retrieval"]
