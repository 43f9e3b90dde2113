"""Conditions on metadata, as SQL over the tables `entries` and `fields` of `jasper_integrations.store`."""

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple


class Condition(NamedTuple):
    """An expression that is 1 or 0 for a row of `entries`, and its arguments."""

    sql: str
    arguments: tuple[Any, ...] = ()


ALL = Condition("1")

# The values of a list, which are one argument: the number of arguments is limited.
VALUES = "(SELECT value FROM json_each(?))"

COMPARISONS = {"==": "=", ">": ">", "<": "<", ">=": ">=", "<=": "<="}


def compare(field: str, operator: str, value: Any) -> Condition:
    """The condition that the metadata of `field` is in a relation to `value`.

    operator is one of LlamaIndex: ==, !=, >, <, >=, <=, in, nin, any, all, contains, text_match,
    text_match_insensitive or is_empty. None and empty lists are as if the field were absent, which == None finds.
    """
    if operator in ("!=", "nin"):
        return negate(compare(field, "==" if operator == "!=" else "in", value))
    if operator == "==" and value is None:
        return negate(having(field, "1"))
    if operator in COMPARISONS:
        return having(field, f"NOT listed AND value {COMPARISONS[operator]} ?", scalar(value))
    if operator == "in":
        return having(field, f"NOT listed AND value IN {VALUES}", as_json(value))
    if operator == "contains":
        return having(field, "value = ?", scalar(value))
    if operator == "any":
        return having(field, f"value IN {VALUES}", as_json(value))
    if operator == "all":
        values = as_json(value)
        number = "(SELECT count(DISTINCT value) FROM json_each(?))"
        inside = having(field, f"value IN {VALUES} GROUP BY key HAVING count(*) = {number}", values, values)
        return combine([inside, Condition(f"{number} = 0", (values,))], "or")
    if operator == "text_match":
        return having(field, "instr(value, ?)", value)
    if operator == "text_match_insensitive":
        return having(field, "instr(casefold(value), casefold(?))", value)
    if operator == "is_empty":
        return negate(having(field, "(listed OR value != '')"))
    raise ValueError(f"the operator of a filter ({operator}) is unknown")


def having(field: str, sql: str, *arguments: Any) -> Condition:
    """The condition that an entry has a row of `fields` for which an expression holds."""
    return Condition(f"key IN (SELECT key FROM fields WHERE field = ? AND {sql})", (field, *arguments))


def field_rows(metadata: dict[str, Any]) -> Iterable[tuple[str, Any, bool]]:
    """The rows of `fields` of an entry, without its key: fields, values, and whether these are of a list."""
    for field, value in metadata.items():
        listed = isinstance(value, (list, dict))
        elements = value.values() if isinstance(value, dict) else value if listed else [value]
        for element in elements:
            yield field, scalar(json.dumps(element) if isinstance(element, (list, dict)) else element), listed


def scalar(value: Any) -> Any:
    """A value as SQLite stores it, whose integers have 64 bits."""
    return float(value) if isinstance(value, int) and not -(2**63) <= value < 2**63 else value


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
