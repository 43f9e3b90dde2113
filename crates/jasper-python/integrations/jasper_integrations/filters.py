"""Conditions on metadata, as SQL over the tables `entries` and `fields` of `jasper_integrations.database`, and as tests of the
attributes of an index."""

import json
from collections.abc import Iterable, Sequence
from math import isfinite
from typing import Any, NamedTuple

from jasper_integrations.attributes import Predicate, elements, scalar


class Condition(NamedTuple):
    """An expression that is 1 or 0 for a row of `entries`, its arguments, and the same as a test of attributes if it can be
    one."""

    sql: str
    arguments: tuple[Any, ...] = ()
    test: Predicate | None = None


ALL = Condition("1", (), Predicate("and"))

# The values of a list, which are one argument: the number of arguments is limited.
VALUES = "(SELECT value FROM json_each(?))"

ORDERS = {">": "$gt", "<": "$lt", ">=": "$gte", "<=": "$lte"}


def compare(field: str, operator: str, value: Any) -> Condition:
    """The condition that the metadata of `field` is in a relation to `value`.

    operator is one of LlamaIndex: ==, !=, >, <, >=, <=, in, nin, any, all, contains, text_match,
    text_match_insensitive or is_empty. None and empty lists are as if the field were absent, which == None finds. A number
    is neither above nor below a string.
    """
    if operator in ("!=", "nin"):
        return negate(compare(field, "==" if operator == "!=" else "in", value))
    if operator == "==" and value is None:
        return negate(having(field, "1", test="present"))
    if operator in ("in", "any", "all"):
        value = list(value)
    elif isinstance(value, (list, tuple, set, dict)):
        raise ValueError(f"the filter {field!r} {operator} has several values ({value!r}); it takes one")
    if operator == "==":
        return having(field, "NOT listed AND value = ?", scalar(value), test="equal", values=[value])
    if operator in ORDERS:
        kind = "=" if isinstance(value, str) else "!="
        sql = f"NOT listed AND value {operator} ? AND typeof(value) {kind} 'text'"
        is_number = isinstance(value, (int, float)) and value == value
        test = ORDERS[operator] if is_number else None
        return having(field, sql, scalar(value), test=test, values=[value])
    if operator == "in":
        return having(field, f"NOT listed AND value IN {VALUES}", as_json(value), test="equal", values=value)
    if operator == "contains":
        return having(field, "value = ?", scalar(value), test="contains", values=[value])
    if operator == "any":
        return having(field, f"value IN {VALUES}", as_json(value), test="contains", values=value)
    if operator == "all":
        values = as_json(value)
        number = "(SELECT count(DISTINCT value) FROM json_each(?))"
        sql = f"value IN {VALUES} GROUP BY key HAVING count(*) = {number}"
        inside = having(field, sql, values, values, test="all", values=value)
        return combine([inside, Condition(f"{number} = 0", (values,), Predicate("or"))], "or")
    if operator == "text_match":
        return having(field, "instr(value, ?)", value)
    if operator == "text_match_insensitive":
        return having(field, "instr(casefold(value), casefold(?))", value)
    if operator == "is_empty":
        return negate(having(field, "(listed OR value != '')", test="filled"))
    raise ValueError(f"the operator of a filter ({operator}) is unknown")


def having(
    field: str, sql: str, *arguments: Any, test: str | None = None, values: Iterable[Any] = ()
) -> Condition:
    """The condition that an entry has a row of `fields` for which an expression holds, and the same as a test."""
    attributes = None
    if test is not None:
        compared = tuple(elements(list(values)))
        if all(not isinstance(value, float) or isfinite(value) for value in compared):
            attributes = Predicate(test, field, compared)
    return Condition(f"key IN (SELECT key FROM fields WHERE field = ? AND {sql})", (field, *arguments), attributes)


def field_rows(metadata: dict[str, Any]) -> Iterable[tuple[str, Any, bool]]:
    """The rows of `fields` of an entry, without its key: fields, values, and whether these are of a list."""
    for field, value in metadata.items():
        listed = isinstance(value, (list, dict))
        for one in elements(value if listed else [value]):
            yield field, one, listed


def one_of(column: str, values: Iterable[Any]) -> Condition:
    """The condition that a column of the table has one of these values."""
    values = list(values)
    test = Predicate("document", "", tuple(values)) if column == "document" else None
    return Condition(f"{column} IN {VALUES}", (as_json(values),), test)


def as_json(values: Iterable[Any]) -> str:
    return json.dumps(list(values))


def combine(conditions: Sequence[Condition], word: str = "and") -> Condition:
    """All of the conditions, or with "or" any of them."""
    if not conditions:
        return ALL if word == "and" else negate(ALL)
    sql = f" {word.upper()} ".join(condition.sql for condition in conditions)
    tests = tuple(condition.test for condition in conditions if condition.test is not None)
    test = Predicate(word, parts=tests) if len(tests) == len(conditions) else None
    return Condition(f"({sql})", tuple(argument for condition in conditions for argument in condition.arguments), test)


def negate(condition: Condition) -> Condition:
    test = None if condition.test is None else Predicate("not", parts=(condition.test,))
    return Condition(f"NOT ({condition.sql})", condition.arguments, test)
