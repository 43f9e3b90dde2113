"""The Python blocks of the README, as one program."""

import pathlib
import re


def test_the_readme_runs(tmp_path, monkeypatch):
    page = pathlib.Path(__file__).parents[1] / "README.md"
    blocks = re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    monkeypatch.chdir(tmp_path)
    exec(compile("\n".join(blocks), page, "exec"), {})
