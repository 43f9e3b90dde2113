"""LangChain's own tests of vector stores, and what is beyond them."""

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_tests.integration_tests.vectorstores import VectorStoreIntegrationTests

from jasper_integrations.database import Entry
from jasper_integrations.langchain import JasperVectorStore


class TestStandard(VectorStoreIntegrationTests):
    """The standard tests, synchronous and asynchronous."""

    @pytest.fixture
    def vectorstore(self):
        return JasperVectorStore(self.get_embeddings())


class TestLoaded(VectorStoreIntegrationTests):
    """The standard tests of a store that was saved empty and loaded."""

    @pytest.fixture
    def vectorstore(self, tmp_path):
        JasperVectorStore(self.get_embeddings(), metric="l2").save_local(tmp_path / "store")
        return JasperVectorStore.load_local(tmp_path / "store", self.get_embeddings())


EMBEDDING = DeterministicFakeEmbedding(size=16)
WORDS = [f"word {number}" for number in range(200)]
METADATA = [{"even": number % 2 == 0, "mod": number % 5, "name": f"n{number}"} for number in range(200)]
IDS = [str(number) for number in range(200)]


@pytest.fixture(params=["cosine", "l2", "ip"])
def store(request):
    return JasperVectorStore.from_texts(WORDS, EMBEDDING, METADATA, ids=IDS, metric=request.param)


def test_filters_select_by_metadata(store):
    found = store.similarity_search("word 7", 200, filter={"mod": [1, 2], "even": False})
    assert {document.metadata["mod"] for document in found} == {1, 2} and len(found) == 40
    assert not any(document.metadata["even"] for document in found)
    assert store.similarity_search("word 7", 5, filter={"mod": 9}) == []
    assert store.similarity_search("word 7", 5, filter={"absent": 1}) == []
    store.add_texts(["quoted"], [{'a"b.c': 1}])
    assert [one.page_content for one in store.similarity_search("word 7", 5, filter={'a"b.c': 1})] == ["quoted"]


def test_filters_have_operators(store):
    def numbers(filter):
        return {int(one.id) for one in store.similarity_search("word 7", 300, filter=filter)}

    def selected(passes):
        return {number for number, metadata in enumerate(METADATA) if passes(metadata)}

    store.add_texts(["listed"], [{"tags": ["a", "b"]}], ids=["1000"])
    assert numbers({"mod": {"$gte": 3}}) == selected(lambda one: one["mod"] >= 3)
    assert numbers({"mod": {"$gt": 0, "$lt": 3}, "even": True}) == selected(lambda one: 0 < one["mod"] < 3 and one["even"])
    assert numbers({"mod": {"$between": [1, 2]}}) == selected(lambda one: one["mod"] in (1, 2))
    assert numbers({"name": {"$in": ["n7", "n9"]}}) == {7, 9}
    assert numbers({"mod": {"$ne": 2}}) == selected(lambda one: one["mod"] != 2) | {1000}
    assert numbers({"mod": {"$nin": [2, 3]}}) == selected(lambda one: one["mod"] not in (2, 3)) | {1000}
    assert numbers({"mod": {"$eq": 2}}) == numbers({"mod": 2}) == selected(lambda one: one["mod"] == 2)
    assert numbers({"mod": {"$not": {"$lte": 2}}}) == selected(lambda one: one["mod"] > 2) | {1000}
    assert numbers({"$or": [{"mod": 1}, {"name": "n5"}]}) == selected(lambda one: one["mod"] == 1) | {5}
    assert numbers({"$and": [{"mod": 1}, {"$not": {"even": True}}]}) == selected(lambda one: one["mod"] == 1 and not one["even"])
    assert numbers({"mod": {"$exists": False}}) == numbers({"mod": None}) == {1000}
    assert numbers({"mod": {"$exists": True}}) == set(range(200))
    assert numbers({"tags": {"$contains": "b"}}) == numbers({"tags": {"$contains_any": ["b", "c"]}}) == {1000}
    assert numbers({"tags": {"$contains_all": ["b", "c"]}}) == set()
    assert numbers({"tags": {"$not_contains": "b"}}) == set(range(200))
    assert numbers({"name": {"$gt": "n98"}}) == {99}
    assert numbers({}) == set(range(200)) | {1000}
    assert numbers(lambda document: document.page_content.endswith("9")) == set(range(9, 200, 10))
    for wrong in ({"mod": {"$above": 1}}, {"mod": {"$gt": [1]}}):
        with pytest.raises(ValueError, match="filter"):
            numbers(wrong)


def test_scores_are_distances_and_relevances_are_not():
    for metric in ("cosine", "l2"):
        store = JasperVectorStore.from_texts(WORDS, EMBEDDING, METADATA, ids=IDS, metric=metric)
        (first, distance), (_, further) = store.similarity_search_with_score("word 7", 2)
        assert first.id == "7" and abs(distance) < 1e-4 < further
        (same, relevance), *_ = store.similarity_search_with_relevance_scores("word 7", 1)
        assert same == first and abs(relevance - 1) < 1e-2


def test_marginal_relevance_avoids_copies():
    store = JasperVectorStore.from_texts(["a", "a", "a", "b"], EMBEDDING)
    assert {one.page_content for one in store.similarity_search("a", 3)} == {"a"}
    diverse = store.max_marginal_relevance_search("a", k=2, fetch_k=4, lambda_mult=0.1)
    assert [one.page_content for one in diverse] == ["a", "b"]
    assert JasperVectorStore(EMBEDDING).max_marginal_relevance_search("a") == []


def test_a_store_is_saved_and_loaded(store, tmp_path):
    store.delete(IDS[:50])
    for _ in range(2):
        store.save_local(tmp_path)
    assert len(list(tmp_path.iterdir())) == 2
    loaded = JasperVectorStore.load_local(tmp_path, EMBEDDING)
    assert len(loaded) == 150
    assert loaded.similarity_search_with_score("word 99", 9) == store.similarity_search_with_score("word 99", 9)
    # Ids that were deleted are free again, and new keys differ from old ones.
    loaded.add_documents([Document(id="3", page_content="new"), Document(page_content="more")])
    assert loaded.get_by_ids(["3"])[0].page_content == "new" and len(loaded) == 152
    with pytest.raises(FileNotFoundError):
        JasperVectorStore.load_local(tmp_path / "none", EMBEDDING)


def test_an_interrupted_save_leaves_the_old_one(store, tmp_path, monkeypatch):
    store.save_local(tmp_path)
    store.delete(IDS[:100])

    def fail(*_):
        raise OSError("full")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="full"):
        store.save_local(tmp_path)
    loaded = JasperVectorStore.load_local(tmp_path, EMBEDDING)
    assert len(loaded) == 200 and loaded.similarity_search("word 7", 200, filter={"even": True})


def test_what_fails_changes_nothing(store):
    with pytest.raises(TypeError):
        store.add_texts(["x", "y"], [{}, {"no": object()}], ids=["0", "new"])
    with pytest.raises(ValueError, match="2 texts, 1 metadatas"):
        store.add_texts(["x", "y"], [{}])
    other = JasperVectorStore(DeterministicFakeEmbedding(size=9))
    other._store = store._store
    with pytest.raises(ValueError):
        other.add_texts(["x"], ids=["0"])
    assert len(store) == 200 and store.get_by_ids(["0", "new"])[0].page_content == "word 0"


def test_all_are_deleted_and_freed(store):
    store.add_texts(WORDS, METADATA, ids=IDS)
    assert len(store) == 200 and store._store.index.stats.tombstones <= 20
    assert store.delete() and len(store) == 0 and store.similarity_search("word 7") == []


def test_a_store_is_a_retriever(store):
    found = store.as_retriever(search_kwargs={"k": 3, "filter": {"even": True}, "beam_width": 50}).invoke("word 8")
    assert len(found) == 3 and all(document.metadata["even"] for document in found)


def test_relevance_of_products_is_in_their_order():
    vectors = {"far": [-3.0, 1.0], "bad": [-0.1, 0.99], "none": [0.0, 1.0], "good": [0.8, 0.6], "long": [4.0, 0.0]}

    class Given(DeterministicFakeEmbedding):
        def embed_documents(self, texts):
            return [vectors[text] for text in texts]

        def embed_query(self, text):
            return [1.0, 0.0]

    store = JasperVectorStore.from_texts(list(vectors), Given(size=2), metric="ip")
    relevance = store._select_relevance_score_fn()
    found = [(one.page_content, relevance(distance)) for one, distance in store.similarity_search_with_score("", 5)]
    assert [name for name, _ in found] == ["long", "good", "none", "bad", "far"]
    assert [score for _, score in found] == pytest.approx([4, 0.8, 0, -0.1, -3], abs=1e-6)


def test_lists_may_be_longer_than_a_statement_has_arguments():
    count = 40_000
    store = JasperVectorStore(DeterministicFakeEmbedding(size=2), max_degree=4, build_beam_width=4)
    ids = [f"id {number}" for number in range(count)]
    store._store.put([Entry(id, "", {"n": number}) for number, id in enumerate(ids)], np.eye(2)[np.arange(count) % 2])
    assert len(store.get_by_ids(ids)) == count
    assert len(store.similarity_search("", 3, filter={"n": list(range(count))})) == 3
    assert len(store.similarity_search("", count)) == count
    store.delete(ids[1:])
    assert len(store) == 1 and store.get_by_ids(ids) == [Document(id="id 0", page_content="", metadata={"n": 0})]
