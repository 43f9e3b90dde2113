"""Writes the page on the Python API: signatures of the stubs and of the Python modules, and their documentation.

    python3 docs/python_api.py > target/book/src/python-api.md

`cargo xtask docs` calls it. The documentation of the items in `_native.pyi` is that of the functions in Rust.
"""

import ast
import pathlib
import re
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[1] / "crates/jasper-python"
PACKAGE = ROOT / "python/jasper"

INTRODUCTION = """\
# Python API

The signatures and the documentation of every public name. [Python](python.md) and [Recipes](recipes.md) show how to use
them, and `help(jasper.Index)` prints this text.

"""

MODULES = [
    ("jasper", ["_native.pyi", "results.py", "graph.py", "data.py", "errors.py"]),
    ("jasper.sklearn", ["sklearn.py"]),
    ("jasper.ray", ["ray/_cluster.py", "ray/_router.py"]),
]
"""Each module and the files that hold what it exports."""

EXPORTED = {
    *("Index", "Filter", "exact_search", "recall", "devices", "Matches", "Report", "knn_graph", "column", "evaluate"),
    *("JasperTransformer", "Cluster", "ClusterMatches", "Unavailable"),
}
"""Names that have a section; all classes of errors have one as well."""

GUIDES = {
    "Filter": "filters.md",
    "Index.explain": "filters.md#what-a-filter-costs",
    "Index.search_async": "python.md#asyncio",
    "Index.set_limits": "security.md",
    "Index.import_graph": "coming-from.md#graphs-of-hnsw",
    "Index.save": "updates.md#durable-indexes",
    "Index.to_device": "gpu.md",
    "Index.quantize": "quantized-search.md",
    "Index.tune": "tuning.md",
    "Index.memory_plan": "large-sets.md#memory",
    "Index.consolidate": "updates.md",
    "knn_graph": "python.md#neighbors-within-a-set",
    "column": "python.md#files-of-other-programs",
    "JasperTransformer": "python.md#scikit-learn",
    "Cluster": "cluster.md",
}
"""Pages of the book about a name."""


def rust_docs() -> dict[str, str]:
    """Documentation of the classes, methods and functions in Rust, by name."""
    docs: dict[str, str] = {}
    for path in sorted((ROOT / "src").glob("*.rs")):
        owner, comment, renamed = "", [], None
        for line in path.read_text().splitlines():
            text = line.strip()
            if text.startswith("///"):
                comment.append(text[3:].removeprefix(" "))
            elif found := re.match(r"impl (\w+) \{", line):
                owner = found[1]
            elif line == "}":
                owner = ""
            elif found := re.search(r'#\[pyo3\(name = "(\w+)"', text):
                renamed = found[1]
            elif found := re.match(r"(?:pub(?:\(\w+\))? )?(?:fn|struct) (\w+)", text):
                if comment:
                    docs.setdefault(".".join(filter(None, [owner, renamed or found[1]])), "\n".join(comment))
                comment, renamed = [], None
            elif not text or text.endswith(("{", "}", ";")):
                comment = []
    return docs


def signature(function: ast.FunctionDef) -> str:
    """The `def` of a function, with an argument per line if it is long."""
    bare = ast.FunctionDef(function.name, function.args, [ast.Pass()], [], function.returns)
    text = ast.unparse(ast.fix_missing_locations(bare)).split("\n")[0].removesuffix(":")
    if len(text) <= 100:
        return text
    arguments = [ast.unparse(part) for part in split(function.args)]
    returns = f" -> {ast.unparse(function.returns)}" if function.returns else ""
    return f"def {function.name}(\n" + "".join(f"    {argument},\n" for argument in arguments) + f"){returns}"


def constructor(name: str, new: ast.FunctionDef) -> str:
    """A class by the arguments of its `__new__`."""
    del new.args.args[0]
    return signature(new).replace("def __new__", f"class {name}").removesuffix(f" -> {name}")


def split(arguments: ast.arguments) -> list[ast.AST]:
    """The arguments one by one, each with its default."""

    def one(**fields: list) -> ast.arguments:
        empty = dict(posonlyargs=[], args=[], vararg=None, kwonlyargs=[], kw_defaults=[], kwarg=None, defaults=[])
        return ast.arguments(**{**empty, **fields})

    first = len(arguments.args) - len(arguments.defaults)
    parts: list[ast.AST] = [
        one(args=[argument], defaults=arguments.defaults[i - first : i - first + 1] if i >= first else [])
        for i, argument in enumerate(arguments.args)
    ]
    if arguments.kwonlyargs:
        parts.append(ast.Name("*"))
        given = zip(arguments.kwonlyargs, arguments.kw_defaults)
        parts += [one(args=[argument], defaults=[default] if default else []) for argument, default in given]
    return parts


def markdown(text: str, sections: set[str]) -> str:
    """Documentation as Markdown: indented descriptions become a list, examples are fenced, names are links."""
    parts = []
    for block in re.split(r"\n\s*\n", textwrap.dedent(text).strip()):
        if block.startswith(">>>"):
            parts.append(f"```pycon\n{block}\n```")
            continue
        items = re.split(r"\n(?=\S)", block)
        if len(block.split("\n")) > 1 and all(re.match(r"[\w, ]+\n +\S", item) for item in items):
            described = [item.split("\n", 1) for item in items]
            parts.append("\n".join(f"- `{name}`: {linked(' '.join(text.split()), sections)}" for name, text in described))
        else:
            parts.append(linked(block, sections))
    return "\n\n".join(parts)


def linked(text: str, sections: set[str]) -> str:
    """The text with links to the sections that it names, and without accidental markup."""
    text = re.sub(r"(?<!`)([<>*])(?!`)", r"\\\1", text)
    return re.sub(
        r"\b((?:Index|Filter|Cluster)\.\w+)", lambda m: f"[`{m[1]}`](#{m[1]})" if m[1] in sections else m[1], text
    )


def entries() -> list[tuple[str, str, str, str]]:
    """Heading, module, signature and documentation of each name."""
    docs, found = rust_docs(), []
    for module, files in MODULES:
        for name in files:
            path = PACKAGE / name
            for node in ast.parse(path.read_text()).body:
                is_error = path.stem == "errors" and isinstance(node, ast.ClassDef)
                if not isinstance(node, (ast.ClassDef, ast.FunctionDef)) or not (is_error or node.name in EXPORTED):
                    continue
                doc = ast.get_docstring(node) or docs.get(node.name, "")
                if isinstance(node, ast.FunctionDef):
                    found.append((node.name, module, signature(node), doc))
                    continue
                bases = f"({', '.join(map(ast.unparse, node.bases))})" if node.bases else ""
                members = [member for member in node.body if isinstance(member, ast.FunctionDef)]
                new = [member for member in members if member.name == "__new__"]
                shown = constructor(node.name, new[0]) if new else f"class {node.name}{bases}"
                found.append((node.name, module, shown, doc))
                for member in members:
                    title = f"{node.name}.{member.name}"
                    doc = ast.get_docstring(member) or docs.get(title, "")
                    if member.name.startswith("_") or not doc:
                        continue
                    decorators = "".join(f"@{ast.unparse(decorator)}\n" for decorator in member.decorator_list)
                    found.append((title, module, decorators + signature(member), doc))
    return found


def main() -> None:
    found = entries()
    sections = {title for title, *_ in found}
    missing = EXPORTED - sections
    assert not missing, f"no documentation of {missing}"
    page, last = [INTRODUCTION], None
    for title, module, shown, doc in found:
        if module != last:
            page.append(f"## Module {module}\n\n")
            last = module
        page.append(f"### {title} {{#{title}}}\n\n```python\n{shown}\n```\n\n{markdown(doc, sections)}\n\n")
        if title in GUIDES:
            name = GUIDES[title].split("#")[0].removesuffix(".md").replace("-", " ")
            page.append(f"The book: [{name}]({GUIDES[title]}).\n\n")
    types = (PACKAGE / "_typing.py").read_text()
    aliases = re.findall(r"^(\w+: TypeAlias = .*)$", types, re.MULTILINE)
    page.append("## Types of arguments\n\n```python\n" + "\n".join(aliases) + "\n```\n")
    print("".join(page), end="")


if __name__ == "__main__":
    main()
