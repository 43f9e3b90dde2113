"""Conditions on metadata, as SQL over the column `metadata`, which has JSON."""

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple


class Condition(NamedTuple):
    """An expression that is 1 or 0, and its arguments."""

    sql: str
    arguments: tuple[Any, ...] = ()


ALL = Condition("1")

# The values of a list, which are one argument: the number of arguments is limited.
VALUES = "(SELECT value FROM json_each(?))"

COMPARISONS = {"==": "IS", "!=": "IS NOT", ">": ">", "<": "<", ">=": ">=", "<=": "<="}


def compare(key: str, operator: str, value: Any) -> Condition:
    """The condition that the metadata of `key` is in a relation to `value`.

    operator is one of LlamaIndex: ==, !=, >, <, >=, <=, in, nin, any, all, contains, text_match,
    text_match_insensitive or is_empty.
    """
    if '"' in key:
        raise ValueError(f"the key of a filter ({key}) must have no quotation mark")
    path = f'$."{key}"'
    found = "json_extract(metadata, ?)"
    if operator in COMPARISONS:
        return whole(f"{found} {COMPARISONS[operator]} ?", path, value)
    if operator in ("in", "nin"):
        inside = whole(f"{found} IN {VALUES}", path, as_json(value))
        return negate(inside) if operator == "nin" else inside
    if operator == "contains":
        return whole("? IN (SELECT value FROM json_each(metadata, ?))", value, path)
    if operator == "any":
        return whole(f"EXISTS (SELECT 1 FROM json_each(metadata, ?) WHERE value IN {VALUES})", path, as_json(value))
    if operator == "all":
        inside = "wanted.value IN (SELECT value FROM json_each(metadata, ?))"
        return whole(f"NOT EXISTS (SELECT 1 FROM json_each(?) AS wanted WHERE NOT {inside})", as_json(value), path)
    if operator == "text_match":
        return whole(f"instr({found}, ?) > 0", path, value)
    if operator == "text_match_insensitive":
        return whole(f"instr(lower({found}), lower(?)) > 0", path, value)
    if operator == "is_empty":
        return Condition(f"({found} IS NULL OR {found} IN ('', '[]'))", (path, path))
    raise ValueError(f"the operator of a filter ({operator}) is unknown")


def whole(sql: str, *arguments: Any) -> Condition:
    """A condition that is 0 where SQL would have NULL."""
    return Condition(f"coalesce({sql}, 0)", arguments)


def one_of(column: str, values: Iterable[Any]) -> Condition:
    """The condition that a column of the table has one of these values."""
    return Condition(f"{column} IN {VALUES}", (as_json(values),))


def as_json(values: Iterable[Any]) -> str:
    return json.dumps(list(values))


def combine(conditions: Sequence[Condition], word: str = "and") -> Condition:
    """All of the conditions, or with "or" any of them."""
    if not conditions:
        return ALL if word == "and" else negate(ALL)
    sql = f" {word.upper()} ".join(condition.sql for condition in conditions)
    return Condition(f"({sql})", tuple(argument for condition in conditions for argument in condition.arguments))


def negate(condition: Condition) -> Condition:
    return Condition(f"NOT ({condition.sql})", condition.arguments)
