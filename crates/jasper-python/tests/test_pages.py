"""The Python blocks of the README and of the book, each page as one program."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[3]


PAGES = ["quick-start", "python", "recipes", "filters", "debugging-recall", "coming-from", "quantized-search"]


@pytest.mark.parametrize("page", ["README.md", *(f"docs/src/{page}.md" for page in PAGES)])
def test_pages_run(page, tmp_path, monkeypatch):
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)
    assert blocks
    if any("import faiss" in block for block in blocks):
        pytest.importorskip("faiss")
    monkeypatch.chdir(tmp_path)
    exec(compile("\n".join(blocks), page, "exec"), {})
