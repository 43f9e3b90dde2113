"""The Python blocks of the README and of the book, each page as one program."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[3]


@pytest.mark.parametrize("page", ["README.md", "docs/src/python.md", "docs/src/recipes.md", "docs/src/filters.md"])
def test_pages_run(page, tmp_path, monkeypatch):
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)
    assert blocks
    monkeypatch.chdir(tmp_path)
    exec(compile("\n".join(blocks), page, "exec"), {})
