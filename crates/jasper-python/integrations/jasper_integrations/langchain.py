"""The vector store of LangChain."""

import os
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore
from langchain_core.vectorstores.utils import maximal_marginal_relevance

from jasper_integrations.database import Entry
from jasper_integrations.filters import ALL, Condition, combine, compare, negate
from jasper_integrations.store import Hit, Metric, Store, Where, with_ids

Filter = dict[str, Any] | Callable[[Document], bool]

# Operators of a dictionary of one field, and those of LlamaIndex.
OPERATORS = {
    "$eq": "==",
    "$ne": "!=",
    "$gt": ">",
    "$lt": "<",
    "$gte": ">=",
    "$lte": "<=",
    "$in": "in",
    "$nin": "nin",
    "$contains": "contains",
    "$contains_any": "any",
    "$contains_all": "all",
}


class JasperVectorStore(VectorStore):
    """Documents whose vectors are in a Jasper index, and whose texts and metadata are in SQLite.

    Searches take filter, a dictionary of metadata: a document passes if each of these keys has the value, or one of
    the values of a list, or what a dictionary demands: {"year": {"$gte": 2020, "$lt": 2024}}. Operators are $eq, $ne, $gt,
    $gte, $lt, $lte, $in, $nin, $between, $exists, $contains, $not_contains, $contains_any, $contains_all and $not; "$and"
    and "$or" of lists of filters, and "$not" of one, combine filters. A key without a value passes $ne, $nin and $not. filter
    may also be a function of a document, which is called with all of them.

    Scores are distances: 1 - cos, squared L2, or negated inner products. Relevance scores are cosines, inner products, or
    1 - d / sqrt(2) of L2 distances d.

    embedding
        Makes vectors of texts.
    metric, device, options
        See jasper.Index: "cosine", "l2" or "ip"; "cpu", "cuda" or "auto"; max_degree, threads and others.
    """

    def __init__(
        self, embedding: Embeddings, *, metric: Metric = "cosine", device: str = "cpu", **options: Any
    ) -> None:
        self._embedding = embedding
        self._store = Store(metric, device, **options)

    @property
    def embeddings(self) -> Embeddings:
        return self._embedding

    def __len__(self) -> int:
        return len(self._store)

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """Adds texts and returns their ids. A text whose id exists is replaced."""
        texts = list(texts)
        metadatas = metadatas if metadatas is not None else [{} for _ in texts]
        given = ids if ids is not None else [None] * len(texts)
        if not len(texts) == len(metadatas) == len(given):
            raise ValueError(f"there are {len(texts)} texts, {len(metadatas)} metadatas and {len(given)} ids")
        names = [id or str(uuid.uuid4()) for id in given]
        if texts:
            entries = [Entry(*fields) for fields in zip(names, texts, metadatas)]
            self._store.put(entries, self._embedding.embed_documents(texts))
        return names

    def delete(self, ids: list[str] | None = None, **kwargs: Any) -> bool:
        """Deletes documents, or all if ids is None. Ids that do not exist are ignored."""
        self._store.delete(ALL if ids is None else with_ids(ids))
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        found = {entry.id: document(entry) for entry in self._store.get(with_ids(ids))}
        return [found[id] for id in ids if id in found]

    def similarity_search(self, query: str, k: int = 4, filter: Filter | None = None, **kwargs: Any) -> list[Document]:
        return self.similarity_search_by_vector(self._embedding.embed_query(query), k, filter, **kwargs)

    def similarity_search_by_vector(
        self, embedding: list[float], k: int = 4, filter: Filter | None = None, **kwargs: Any
    ) -> list[Document]:
        return [document(hit.entry) for hit in self._search(embedding, k, filter, **kwargs)]

    def similarity_search_with_score(
        self, query: str, k: int = 4, filter: Filter | None = None, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        hits = self._search(self._embedding.embed_query(query), k, filter, **kwargs)
        return [(document(hit.entry), hit.distance) for hit in hits]

    def max_marginal_relevance_search(
        self,
        query: str,
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        filter: Filter | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        vector = self._embedding.embed_query(query)
        return self.max_marginal_relevance_search_by_vector(vector, k, fetch_k, lambda_mult, filter, **kwargs)

    def max_marginal_relevance_search_by_vector(
        self,
        embedding: list[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        filter: Filter | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        hits = self._search(embedding, max(k, fetch_k), filter, vectors=True, **kwargs)
        if not hits:
            return []
        vectors: Any = [hit.vector for hit in hits]
        chosen = maximal_marginal_relevance(np.asarray(embedding, np.float32), vectors, lambda_mult, k)
        return [document(hits[number].entry) for number in chosen]

    def save_local(self, folder_path: str | os.PathLike[str]) -> None:
        """Saves documents and vectors into a folder."""
        self._store.save(folder_path)

    @classmethod
    def load_local(cls, folder_path: str | os.PathLike[str], embeddings: Embeddings) -> "JasperVectorStore":
        """Loads what `save_local` has saved."""
        loaded = cls.__new__(cls)
        loaded._embedding, loaded._store = embeddings, Store.load(folder_path)
        return loaded

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        **kwargs: Any,
    ) -> "JasperVectorStore":
        """A store of these texts. kwargs are those of the class."""
        store = cls(embedding, **kwargs)
        store.add_texts(texts, metadatas, ids=ids)
        return store

    def _search(self, vector: list[float], k: int, filter: Filter | None, **kwargs: Any) -> list[Hit]:
        return self._store.search(vector, k, None if filter is None else passing(filter), **kwargs)

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        if self._store.metric == "cosine":
            return self._cosine_relevance_score_fn
        if self._store.metric == "ip":
            # The product, whatever its range: from -1 to 1 for embeddings of unit length, as with "cosine".
            return lambda negated: -negated
        return lambda squared: self._euclidean_relevance_score_fn(squared**0.5)


def passing(filter: Filter) -> Where:
    """What a filter selects."""
    return condition(filter) if isinstance(filter, dict) else lambda entry: filter(document(entry))


def condition(filter: dict[str, Any]) -> Condition:
    """The condition of a dictionary, whose entries all hold."""
    parts = []
    for key, value in filter.items():
        if key in ("$and", "$or"):
            parts.append(combine([condition(one) for one in value], key[1:]))
        elif key == "$not":
            parts.append(negate(condition(value)))
        else:
            parts.append(field_condition(key, value))
    return combine(parts)


def field_condition(field: str, value: Any) -> Condition:
    """The condition that the metadata of a field is a value, or one of a list, or what a dictionary of operators demands."""
    if not isinstance(value, dict):
        return compare(field, "in" if isinstance(value, (list, tuple, set)) else "==", value)
    parts = []
    for operator, operand in value.items():
        if operator in OPERATORS:
            parts.append(compare(field, OPERATORS[operator], operand))
        elif operator == "$not":
            parts.append(negate(field_condition(field, operand)))
        elif operator == "$not_contains":
            parts.append(negate(compare(field, "contains", operand)))
        elif operator == "$between":
            least, most = operand
            parts += [compare(field, ">=", least), compare(field, "<=", most)]
        elif operator == "$exists":
            parts.append(compare(field, "!=" if operand else "==", None))
        else:
            raise ValueError(f"the operator of a filter ({operator}) is unknown")
    return combine(parts)


def document(entry: Entry) -> Document:
    return Document(id=entry.id, page_content=entry.text, metadata=entry.metadata)
