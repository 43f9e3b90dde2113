"""Metadata as attributes of an index, and conditions on metadata as filter expressions.

A field has a column for each type of its values, so that no value is refused because of others of its field:

    i:FIELD  integers of 64 bits; bools are 0 and 1
    f:FIELD  other numbers
    s:FIELD  strings
    l:FIELD  lists, with their elements as strings

Filters test strings and elements of lists for equality only, so long ones are replaced by hashes.
"""

import hashlib
import json
from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

# The column of what an entry is a part of.
DOCUMENT = "d:"

# Characters of the longest string that is not hashed. The index keeps every different string once.
LONGEST_STRING = 256

# Elements of the longest list that the index stores.
LONGEST_LIST = 65_535

# Fields that get columns, and characters of the longest name of one.
MAX_FIELDS = 256
LONGEST_NAME = 256

Expression = dict[str, Any]


class Predicate(NamedTuple):
    """What a condition demands of an entry: a value that can be hashed.

    operator
        "and", "or" or "not" of `parts`; or a test of the value of `field`:
        "equal", that it is one of `values`, and no list; "contains", that it is one of these, or a list that has one;
        "all", that it has all of these; "present", that there is one; "filled", that it is not the empty string either;
        "$lt", "$lte", "$gt" or "$gte", that it is a number, and how it compares with the only one of `values`;
        or "document", that the document of the entry is one of `values`.
    """

    operator: str
    field: str = ""
    values: tuple[Any, ...] = ()
    parts: "tuple[Predicate, ...]" = ()

    def fields(self) -> set[str]:
        """The fields whose values it reads."""
        if self.operator in ("and", "or", "not"):
            return {field for part in self.parts for field in part.fields()}
        return set() if self.operator == "document" else {self.field}


def scalar(value: Any) -> Any:
    """A value as SQLite stores it, whose integers have 64 bits."""
    return float(value) if isinstance(value, int) and not -(2**63) <= value < 2**63 else value


def elements(value: Any) -> list[Any]:
    """The values of a list or a dictionary: scalars, and the JSON of others. Without None and NaN."""
    found = value.values() if isinstance(value, dict) else value
    plain = (json.dumps(one) if isinstance(one, (list, dict)) else scalar(one) for one in found)
    return [one for one in plain if one is not None and one == one]


class Columns:
    """Collects the columns of entries."""

    def __init__(self, rows: int, columns: Collection[str]) -> None:
        """`columns` are those of the index."""
        self.columns: dict[str, list[Any]] = {}
        self.skipped: set[str] = set()
        """Fields that have values without a column."""
        self._rows = rows
        self._fields = {name[2:] for name in columns if name != DOCUMENT}

    def add(self, row: int, metadata: dict[str, Any], document: str | None) -> None:
        """Adds the entry of a row."""
        if document is not None:
            self._set(DOCUMENT, row, string(document))
        for field, value in metadata.items():
            if field not in self._fields:
                if len(self._fields) >= MAX_FIELDS or len(field) > LONGEST_NAME:
                    self.skipped.add(field)
                    continue
                self._fields.add(field)
            if isinstance(value, (list, dict)):
                listed = list(dict.fromkeys(element(one) for one in elements(value)))
                if len(listed) > LONGEST_LIST:
                    self.skipped.add(field)
                elif listed:
                    self._set(f"l:{field}", row, listed)
            elif isinstance(value, str):
                self._set(f"s:{field}", row, string(value))
            elif value is not None and value == value:
                value = number(value)
                self._set(f"{'i' if isinstance(value, int) else 'f'}:{field}", row, value)

    def _set(self, name: str, row: int, value: Any) -> None:
        if name not in self.columns:
            self.columns[name] = [None] * self._rows
        self.columns[name][row] = value


def string(value: str) -> str:
    """A string as a column has it."""
    if len(value) <= LONGEST_STRING and not value.startswith("\0"):
        return value
    return "\0" + hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()


def number(value: Any) -> int | float:
    """A number as a column has it: equal ones are the same. The least integer is not stored as one."""
    whole = int(value) if isinstance(value, int) or value.is_integer() else value
    return whole if isinstance(whole, int) and -(2**63) < whole < 2**63 else float(value)


def element(value: Any) -> str:
    """An element of a list as a column has it. Equal ones are the same."""
    return string(f"s{value}" if isinstance(value, str) else f"n{number(value)!r}")


def expression(test: Predicate, columns: Collection[str]) -> Expression:
    """The filter expression of a test for an index with these columns."""
    field = test.field

    def any_of(*conditions: tuple[str, Any]) -> Expression:
        """One of these conditions on columns, of which those that do not exist are null."""
        parts = [{column: condition} for column, condition in conditions if column in columns]
        return parts[0] if len(parts) == 1 else {"$or": parts}

    def equal(values: Iterable[Any]) -> Expression:
        values = list(values)
        strings = [string(value) for value in values if isinstance(value, str)]
        numbers = [number(value) for value in values if not isinstance(value, str)]
        conditions = [(f"{kind}:{field}", {"$in": numbers}) for kind in "if" if numbers]
        conditions += [(f"s:{field}", {"$in": strings})] if strings else []
        return any_of(*conditions)

    match test.operator:
        case "and" | "or" as word:
            return {f"${word}": [expression(part, columns) for part in test.parts]}
        case "not":
            return {"$not": expression(test.parts[0], columns)}
        case "document":
            return any_of((DOCUMENT, {"$in": [string(value) for value in test.values]}))
        case "equal":
            return equal(test.values)
        case "contains":
            listed = any_of((f"l:{field}", {"$contains_any": [element(value) for value in test.values]}))
            return {"$or": [equal(test.values), listed]}
        case "all":
            values = list(dict.fromkeys(element(value) for value in test.values))
            listed = any_of((f"l:{field}", {"$contains_all": values}))
            if len(values) == 0:
                return {}
            return {"$or": [equal(test.values[:1]), listed]} if len(values) == 1 else listed
        case "present" | "filled":
            conditions = [(f"{kind}:{field}", {"$exists": True}) for kind in "ifl"]
            text = {"$exists": True} if test.operator == "present" else {"$exists": True, "$ne": ""}
            return any_of(*conditions, (f"s:{field}", text))
        case order:
            return any_of(*((f"{kind}:{field}", {order: number(test.values[0])}) for kind in "if"))
