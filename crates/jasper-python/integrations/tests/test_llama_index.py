"""The contract of LlamaIndex's vector stores: adding, deleting, queries with filters, persistence."""

import asyncio
import itertools

import numpy as np
import pytest
from llama_index.core import MockEmbedding, StorageContext, VectorStoreIndex
from llama_index.core.schema import Document, NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    SimpleVectorStore,
    VectorStoreQuery,
)
from llama_index.core.vector_stores.types import VectorStoreQueryMode

from jasper_integrations.llama_index import JasperVectorStore, condition

N, DIM = 60, 8
VECTORS = np.random.default_rng(0).normal(size=(N, DIM))


def make_node(number):
    metadata = {
        "number": number,
        "share": number / 7,
        "name": f"Name {number % 4}",
        "tags": [["a"], ["a", "b"], []][number % 3],
    }
    if number % 5 == 0:
        del metadata["name"]
    return TextNode(
        id_=f"node-{number}",
        text=f"text {number}",
        metadata=metadata,
        embedding=VECTORS[number].tolist(),
        relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=f"document-{number // 10}")},
    )


def filled(store):
    store.add([make_node(number) for number in range(N)])
    return store


@pytest.fixture
def store():
    return filled(JasperVectorStore())


def ask(store, vector, k=5, **options):
    return store.query(VectorStoreQuery(query_embedding=list(vector), similarity_top_k=k, **options))


def test_queries_answer_as_the_simple_store(store):
    simple = filled(SimpleVectorStore())
    for vector in VECTORS[:10] + 0.1:
        ours, theirs = ask(store, vector), ask(simple, vector)
        assert ours.ids == theirs.ids and np.allclose(ours.similarities, theirs.similarities, atol=1e-5)
        assert [node.node_id for node in ours.nodes] == ours.ids
    (node,) = ask(store, VECTORS[3], 1).nodes
    assert (node.text, node.metadata, node.ref_doc_id) == ("text 3", make_node(3).metadata, "document-0")


FILTERS = [
    MetadataFilter(key=key, operator=operator, value=value)
    for key, operator, value in [
        ("number", "==", 7),
        ("number", "!=", 7),
        ("number", ">", 30),
        ("number", "<", 30),
        ("share", ">=", 3.0),
        ("share", "<=", 3.0),
        ("name", "==", "Name 2"),
        ("name", "in", ["Name 2", "Name 3"]),
        ("name", "nin", ["Name 2", "Name 3"]),
        ("tags", "any", ["b", "c"]),
        ("tags", "all", ["a", "b"]),
        ("tags", "contains", "b"),
        ("name", "text_match", "me 1"),
        ("name", "text_match_insensitive", "NAME 1"),
        ("tags", "is_empty", None),
        ("name", "is_empty", None),
    ]
]


def passing(store, filters):
    return set(ask(store, VECTORS[0], N, filters=filters).ids)


@pytest.mark.parametrize("one", FILTERS, ids=lambda one: f"{one.key}-{one.operator.value}")
def test_filters_select_what_they_say(store, one):
    named = MetadataFilters(filters=[one])
    found = passing(store, named)
    values = {f"node-{number}": make_node(number).metadata.get(one.key) for number in range(N)}
    judge = {
        "==": lambda have: have == one.value,
        "!=": lambda have: have != one.value,
        ">": lambda have: have > one.value,
        "<": lambda have: have < one.value,
        ">=": lambda have: have >= one.value,
        "<=": lambda have: have <= one.value,
        "in": lambda have: have in one.value,
        "nin": lambda have: have not in one.value,
        "any": lambda have: bool(set(have) & set(one.value)),
        "all": lambda have: set(one.value) <= set(have),
        "contains": lambda have: one.value in have,
        "text_match": lambda have: have is not None and one.value in have,
        "text_match_insensitive": lambda have: have is not None and one.value.lower() in have.lower(),
        "is_empty": lambda have: not have,
    }[one.operator.value]
    assert found == {name for name, have in values.items() if judge(have)}
    # The index evaluates all but matches of texts.
    assert (store._store._expression(condition(named)) is None) == (one.operator.value.startswith("text_match"))
    assert 0 < len(found) < N
    negated = MetadataFilters(filters=[named], condition=FilterCondition.NOT)
    assert passing(store, negated) == set(values) - found


@pytest.mark.parametrize(
    ("text", "value"),
    [("GRÜSSE aus Köln", "grüße"), ("straße", "STRASSE"), ("ΟΔΟΣ", "οδος"), ("ПРИВЕТ", "привет"), ("ﬁne", "FINE")],
)
def test_text_is_matched_in_any_case_of_unicode(store, text, value):
    store.add([TextNode(id_="named", metadata={"name": text}, embedding=VECTORS[0].tolist())])
    for operator, ids in ((FilterOperator.TEXT_MATCH_INSENSITIVE, {"named"}), (FilterOperator.TEXT_MATCH, set())):
        named = MetadataFilter(key="name", operator=operator, value=value)
        assert passing(store, MetadataFilters(filters=[named])) == ids


def test_filters_have_any_number_of_values(store):
    many = [*range(10), *range(1_000, 41_000)]
    expected = {f"node-{number}" for number in range(10)}
    for operator in (FilterOperator.IN, FilterOperator.ANY):
        one = MetadataFilter(key="number", operator=operator, value=many)
        assert passing(store, MetadataFilters(filters=[one])) == expected
    one = MetadataFilter(key="number", operator=FilterOperator.ALL, value=many)
    assert passing(store, MetadataFilters(filters=[one])) == set()
    names = [f"node-{number}" for number in many]
    assert set(ask(store, VECTORS[0], N, node_ids=names).ids) == expected
    assert {node.node_id for node in store.get_nodes(names)} == expected


def test_conditions_combine_filters(store):
    for first, second in itertools.combinations(FILTERS[::3], 2):
        sets = [passing(store, MetadataFilters(filters=[one])) for one in (first, second)]
        both = MetadataFilters(filters=[first, second])
        either = MetadataFilters(filters=[first, second], condition=FilterCondition.OR)
        assert passing(store, both) == sets[0] & sets[1] and passing(store, either) == sets[0] | sets[1]
        nested = MetadataFilters(filters=[either, MetadataFilter(key="number", value=20, operator=FilterOperator.LT)])
        assert passing(store, nested) == {
            name for name in sets[0] | sets[1] if int(name.removeprefix("node-")) < 20
        }


def test_ids_and_documents_restrict_queries(store):
    assert set(ask(store, VECTORS[0], N, node_ids=["node-1", "node-2", "none"]).ids) == {"node-1", "node-2"}
    assert set(ask(store, VECTORS[0], N, doc_ids=["document-5"]).ids) == {f"node-{number}" for number in range(50, 60)}
    with pytest.raises(ValueError, match="mode of a query"):
        ask(store, VECTORS[0], mode=VectorStoreQueryMode.SPARSE)


def test_nodes_are_deleted_and_replaced(store):
    store.delete("document-0")
    assert len(store.get_nodes()) == 50 and ask(store, VECTORS[3], 1).ids != ["node-3"]
    store.delete_nodes(["node-10"])
    store.delete_nodes(filters=MetadataFilters(filters=[FILTERS[2]]))
    store.delete_nodes()
    assert sorted(node.metadata["number"] for node in store.get_nodes()) == list(range(11, 31))
    changed = make_node(11)
    changed.text, changed.embedding = "changed", (-VECTORS[11]).tolist()
    assert store.add([changed]) == ["node-11"]
    assert ask(store, -VECTORS[11], 1).nodes[0].text == "changed" and len(store.get_nodes(["node-11"])) == 1
    store.clear()
    assert store.get_nodes() == [] and ask(store, VECTORS[0]).ids == []
    assert store.add([]) == []


def test_asynchronous_calls(store):
    async def calls():
        await store.adelete("document-0")
        await store.async_add([make_node(3)])
        query = VectorStoreQuery(query_embedding=VECTORS[3].tolist(), similarity_top_k=1)
        return await store.aquery(query), await store.aget_nodes()

    result, nodes = asyncio.run(calls())
    assert result.ids == ["node-3"] and len(nodes) == 51


@pytest.mark.parametrize("metric", ["cosine", "l2", "ip"])
def test_a_store_is_persisted(tmp_path, metric):
    store = filled(JasperVectorStore(metric=metric, max_degree=16))
    store.delete("document-1")
    store.persist(str(tmp_path / "store"))
    loaded = JasperVectorStore.from_persist_path(str(tmp_path / "store"))
    ours, theirs = ask(loaded, VECTORS[7]), ask(store, VECTORS[7])
    assert (ours.ids, ours.similarities) == (theirs.ids, theirs.similarities) and loaded.client.metric == metric
    assert sorted(ours.similarities, reverse=True) == ours.similarities
    with pytest.raises(ValueError, match="LocalFileSystem"):
        store.persist("x", fs=object())


def test_it_serves_an_index_of_documents(tmp_path):
    store = JasperVectorStore()
    context = StorageContext.from_defaults(vector_store=store)
    documents = [Document(text=f"Document {number}.", doc_id=str(number)) for number in range(5)]
    model = MockEmbedding(embed_dim=DIM)
    index = VectorStoreIndex.from_documents(documents, storage_context=context, embed_model=model)
    assert len(index.as_retriever(similarity_top_k=3).retrieve("Document 3.")) == 3
    index.delete_ref_doc("3", delete_from_docstore=True)
    assert {node.ref_doc_id for node in store.get_nodes()} == {"0", "1", "2", "4"}
    store.persist(str(tmp_path / "store"))
    loaded = JasperVectorStore.from_persist_path(str(tmp_path / "store"))
    again = VectorStoreIndex.from_vector_store(loaded, embed_model=model)
    assert len(again.as_retriever(similarity_top_k=9).retrieve("Document 1.")) == 4
