"""The vector store of LlamaIndex."""

import os
from collections.abc import Sequence
from typing import Any

from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.schema import BaseNode, MetadataMode
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
    VectorStoreQueryResult,
)
from llama_index.core.vector_stores.utils import metadata_dict_to_node, node_to_metadata_dict

from jasper_integrations.database import Entry
from jasper_integrations.filters import ALL, Condition, combine, compare, negate, one_of
from jasper_integrations.store import Metric, Store, with_ids


class JasperVectorStore(BasePydanticVectorStore):
    """Nodes whose vectors are in a Jasper index, and whose texts and metadata are in SQLite.

    Queries take filters of all operators and conditions on the metadata of nodes, node_ids and doc_ids. Similarities
    are cosines, inner products, or 1 / (1 + d) of squared L2 distances d.

    metric, device, options
        See jasper.Index: "cosine", "l2" or "ip"; "cpu", "cuda" or "auto"; max_degree, threads and others.
    """

    stores_text: bool = True
    flat_metadata: bool = False
    _store: Store = PrivateAttr()

    def __init__(self, *, metric: Metric = "cosine", device: str = "cpu", **options: Any) -> None:
        super().__init__(stores_text=True)
        self._store = Store(metric, device, **options)

    @classmethod
    def class_name(cls) -> str:
        return "JasperVectorStore"

    @property
    def client(self) -> Any:
        """The jasper.Index, or None before the first node."""
        return self._store.index

    def add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """Adds nodes and returns their ids. A node whose id exists is replaced."""
        entries = [
            Entry(
                node.node_id,
                node.get_content(metadata_mode=MetadataMode.NONE),
                node_to_metadata_dict(node, remove_text=True, flat_metadata=self.flat_metadata),
                node.ref_doc_id,
            )
            for node in nodes
        ]
        self._store.put(entries, [node.get_embedding() for node in nodes])
        return [entry.id for entry in entries]

    def delete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """Deletes the nodes of a document."""
        self._store.delete(one_of("document", [ref_doc_id]))

    def delete_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None, **delete_kwargs: Any
    ) -> None:
        """Deletes nodes that have one of these ids and pass the filters. Without either, it deletes none."""
        if node_ids is not None or filters is not None:
            self._store.delete(condition(filters, node_ids))

    def get_nodes(self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None) -> list[BaseNode]:
        """The nodes that have one of these ids and pass the filters."""
        return [node(entry) for entry in self._store.get(condition(filters, node_ids))]

    def clear(self) -> None:
        self._store.delete(ALL)

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """The most similar nodes. kwargs are those of jasper.Index.search."""
        if query.mode != VectorStoreQueryMode.DEFAULT:
            raise ValueError(f"the mode of a query ({query.mode}) must be {VectorStoreQueryMode.DEFAULT}")
        if query.query_embedding is None:
            raise ValueError("a query must have a query_embedding")
        # Retrievers of an index pass an empty list where they ask for all nodes.
        node_ids, doc_ids = query.node_ids or None, query.doc_ids or None
        where = None
        if query.filters is not None or node_ids is not None or doc_ids is not None:
            where = condition(query.filters, node_ids, doc_ids)
        hits = self._store.search(query.query_embedding, query.similarity_top_k, where, **kwargs)
        return VectorStoreQueryResult(
            nodes=[node(hit.entry) for hit in hits],
            similarities=[self._similarity(hit.distance) for hit in hits],
            ids=[hit.entry.id for hit in hits],
        )

    def persist(self, persist_path: str, fs: Any = None) -> None:
        """Saves nodes and vectors into the folder `persist_path`, which is made. fs must be None or local."""
        local(fs)
        self._store.save(persist_path)

    @classmethod
    def from_persist_path(cls, persist_path: str | os.PathLike[str], fs: Any = None) -> "JasperVectorStore":
        """Loads what `persist` has saved."""
        local(fs)
        loaded = cls()
        loaded._store = Store.load(persist_path)
        return loaded

    def _similarity(self, distance: float) -> float:
        return {"cosine": 1 - distance, "ip": -distance, "l2": 1 / (1 + max(distance, 0))}[self._store.metric]


def node(entry: Entry) -> BaseNode:
    return metadata_dict_to_node(entry.metadata, text=entry.text)


def condition(
    filters: MetadataFilters | None, node_ids: list[str] | None = None, doc_ids: list[str] | None = None
) -> Condition:
    """All of the conditions that are given."""
    conditions = [] if filters is None else [metadata_condition(filters)]
    conditions += [] if node_ids is None else [with_ids(node_ids)]
    conditions += [] if doc_ids is None else [one_of("document", doc_ids)]
    return combine(conditions)


def metadata_condition(filters: MetadataFilters) -> Condition:
    parts = [
        metadata_condition(one)
        if isinstance(one, MetadataFilters)
        else compare(one.key, one.operator.value, one.value)
        for one in filters.filters
    ]
    word = filters.condition.value if filters.condition is not None else "and"
    return negate(combine(parts, "and")) if word == "not" else combine(parts, word)


def local(fs: Any) -> None:
    from fsspec.implementations.local import LocalFileSystem

    if fs is not None and not isinstance(fs, LocalFileSystem):
        raise ValueError(f"fs ({type(fs).__name__}) must be None or a LocalFileSystem")
