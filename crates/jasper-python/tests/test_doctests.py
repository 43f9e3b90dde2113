"""The examples of docstrings, that everything has a docstring, and that the page on the API has everything."""

import doctest
import inspect
import pathlib
import subprocess
import sys

import pytest

import jasper
import jasper._native
import jasper.graph
import jasper.sklearn


@pytest.mark.parametrize("module", [jasper, jasper._native, jasper.graph, jasper.sklearn])
def test_examples_run(module):
    result = doctest.testmod(module)
    assert result.attempted > 0 and result.failed == 0


def test_everything_is_documented():
    for name in jasper.__all__:
        item = getattr(jasper, name)
        assert item.__doc__, name
        if inspect.isclass(item) and item.__module__ == "jasper":
            public = [member for member in vars(item) if not member.startswith("_")]
            assert public
            for member in public:
                assert getattr(item, member).__doc__, f"{name}.{member}"


def test_the_page_on_the_api_has_everything():
    program = pathlib.Path(__file__).parents[3] / "docs/python_api.py"
    page = subprocess.run([sys.executable, program], capture_output=True, text=True, check=True).stdout
    names = [name for name in jasper.__all__ if name != "errors"]
    for item in (jasper.Index, jasper.Filter):
        names += [f"{item.__name__}.{member}" for member in vars(item) if not member.startswith("_")]
    assert [name for name in names if f"{{#{name}}}" not in page] == []
