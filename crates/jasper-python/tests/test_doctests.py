"""The examples of docstrings, and that everything has a docstring."""

import doctest
import inspect

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
