"""Runs notebooks and renders them as pages of the book.

    python notebooks/render.py

Each `NAME.ipynb` beside this file is run from the root of the repository; its outputs are stored in it, and the page is
docs/src/NAME.md. Tests check that both are up to date, so that outputs must not depend on the machine.
"""

import contextlib
import io
import json
import os
import pathlib
from typing import Any

FOLDER = pathlib.Path(__file__).resolve().parent
ROOT = FOLDER.parents[2]


def run(notebook: dict[str, Any]) -> dict[str, Any]:
    """The notebook with the outputs of a run in this process."""
    names: dict[str, Any] = {}
    cells = []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            text = io.StringIO()
            with contextlib.redirect_stdout(text):
                exec(compile("".join(cell["source"]), "<cell>", "exec"), names)
            lines = text.getvalue().splitlines(keepends=True)
            outputs = [{"name": "stdout", "output_type": "stream", "text": lines}] if lines else []
            cell = {**cell, "outputs": outputs}
        cells.append(cell)
    return {**notebook, "cells": cells}


def page(notebook: dict[str, Any], name: str) -> str:
    """The notebook as Markdown."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"]).strip()
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            parts.append(f"```text\n{''.join(output['text']).rstrip()}\n```")
    notice = f"<!-- Rendered from crates/jasper-python/notebooks/{name}.ipynb by render.py; edit it there. -->"
    return "\n\n".join([notice, *parts]) + "\n"


def notebooks() -> list[pathlib.Path]:
    return sorted(FOLDER.glob("*.ipynb"))


def dump(notebook: dict[str, Any]) -> str:
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    os.chdir(ROOT)
    for path in notebooks():
        notebook = run(json.loads(path.read_text()))
        path.write_text(dump(notebook))
        (ROOT / "docs/src" / f"{path.stem}.md").write_text(page(notebook, path.stem))


if __name__ == "__main__":
    main()
