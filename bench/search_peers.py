"""Other people's search engines in `bench.search`, set up after their documentation, in their persistent modes.

They are installed apart (`make peers`), so they are imported by name: the checks of this repository run without them.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any
from zlib import crc32

from bench.search_data import DIMENSION, Block, Floats
from bench.search_engine import CANDIDATES, fuse

from kho.search.text.tokens import index_tokens, query_tokens

_WORD = re.compile(r"\w+")


class Chroma:
    """No word ranking in the local engine: documents can only be filtered by substrings. So the word leg is a vector
    search among the documents that hold one of the query's three longest words, fused with the plain one by us."""

    about = "PersistentClient, HNSW cosine; words by where_document $contains (it has no BM25 locally), RRF by us"

    def __init__(self, folder: Path, rows: int, tenants: int) -> None:
        chroma = import_module("chromadb")
        settings = import_module("chromadb.config").Settings(anonymized_telemetry=False)
        self._client: Any = chroma.PersistentClient(str(folder), settings=settings)
        self._collection: Any = self._client.create_collection(
            "rows",
            embedding_function=None,
            # Larger than the defaults, so that a bulk load writes the graph less often. Other values were not tried.
            configuration={"hnsw": {"space": "cosine", "batch_size": 5_000, "sync_threshold": 20_000}},
        )
        self._filtered = tenants > 1

    def versions(self) -> str:
        return f"chromadb {version('chromadb')}"

    def ingest(self, blocks: Iterable[Block]) -> None:
        most = self._client.get_max_batch_size()
        for block in blocks:
            for at in range(0, len(block.ids), most):
                part = slice(at, at + most)
                self._collection.add(
                    ids=[str(number) for number in block.ids[part]],
                    embeddings=block.vectors[part],
                    documents=block.texts[part],
                    metadatas=[{"tenant": tenant} for tenant in block.tenants[part]],
                )

    def query(self, tenant: str, text: str, vector: Floats, limit: int) -> list[tuple[int, str]]:
        words = sorted(_WORD.findall(text), key=len)[-3:]
        holding = [{"$contains": word} for word in words]
        near = self._search(tenant, vector, CANDIDATES, None)
        worded = self._search(tenant, vector, CANDIDATES, {"$or": holding} if len(holding) > 1 else holding[0])
        texts = near | worded
        return [(number, texts[number]) for number in fuse([*near], [*worded])[:limit]]

    def near(self, tenant: str, vector: Floats, limit: int) -> list[int]:
        return [*self._search(tenant, vector, limit, None)]

    def _search(self, tenant: str, vector: Floats, limit: int, holding: Any) -> dict[int, str]:
        found = self._collection.query(
            query_embeddings=[vector],
            n_results=limit,
            where={"tenant": tenant} if self._filtered else None,
            where_document=holding,
            include=["documents"],
        )
        return {int(number): text for number, text in zip(found["ids"][0], found["documents"][0], strict=True)}

    def processes(self) -> list[int]:
        return []

    def close(self) -> None:
        self._client.close()


class Lance:
    """Hybrid search of its own, with its own full-text index. Up to about 100,000 rows its documentation
    holds a vector index for needless; above, for filtered searches, it advises IVF_PQ or IVF_RQ. Of what was tried at
    100,000 rows (no index, IVF_PQ, IVF_RQ) the setting below answered fastest among those with a recall of 0.98."""

    def __init__(self, folder: Path, rows: int, tenants: int) -> None:
        lance = import_module("lancedb")
        self._arrow: Any = import_module("pyarrow")
        self._reranker: Any = import_module("lancedb.rerankers").RRFReranker()
        self._db: Any = lance.connect(str(folder))
        self._table: Any = None
        self._filtered = tenants > 1
        self._indexed = rows > 50_000
        kind = "IVF_RQ, 50 probes, refined 10 times" if self._indexed else "no vector index"
        self.about = f"{kind}; BITMAP on tenant; FTS; hybrid, RRF"

    def versions(self) -> str:
        return f"lancedb {version('lancedb')}, pyarrow {version('pyarrow')}"

    def ingest(self, blocks: Iterable[Block]) -> None:
        arrow = self._arrow
        vector = arrow.list_(arrow.float32(), DIMENSION)
        schema = arrow.schema(
            [("id", arrow.int64()), ("tenant", arrow.string()), ("text", arrow.string()), ("vector", vector)]
        )

        def batches() -> Iterator[Any]:
            for block in blocks:
                flat = arrow.array(block.vectors.ravel())
                vectors = arrow.FixedSizeListArray.from_arrays(flat, DIMENSION)
                yield arrow.record_batch([block.ids, block.tenants, block.texts, vectors], schema=schema)

        # As one stream: a table per batch would leave as many fragments.
        self._table = self._db.create_table("rows", data=batches(), schema=schema)
        if self._filtered:
            self._table.create_scalar_index("tenant", index_type="BITMAP")
        self._table.create_fts_index("text", use_tantivy=False, with_position=False)
        if self._indexed:
            quantised = import_module("lancedb.index").IvfRq(distance_type="cosine")
            self._table.create_index("vector", config=quantised)
        self._table.optimize()

    def query(self, tenant: str, text: str, vector: Floats, limit: int) -> list[tuple[int, str]]:
        # The pipeline of a string query takes operators; a match query takes any text as words.
        words = import_module("lancedb.query").MatchQuery(text, "text")
        search = self._table.search(query_type="hybrid").vector(vector).text(words)
        found = self._narrowed(search, tenant).rerank(self._reranker).select(["id", "text"]).limit(limit).to_arrow()
        return [*zip(found["id"].to_pylist(), found["text"].to_pylist(), strict=True)]

    def near(self, tenant: str, vector: Floats, limit: int) -> list[int]:
        search = self._narrowed(self._table.search(vector), tenant)
        return search.select(["id"]).limit(limit).to_arrow()["id"].to_pylist()

    def _narrowed(self, search: Any, tenant: str) -> Any:
        search = search.distance_type("cosine")
        if self._indexed:
            search = search.nprobes(50).refine_factor(10)
        return search.where(f"tenant = '{tenant}'", prefilter=True) if self._filtered else search

    def processes(self) -> list[int]:
        return []

    def close(self) -> None:
        self._table = None


class Qdrant:
    """The client's local mode: exact search in Python. BM25 as Qdrant does it, by sparse vectors with its own IDF; the
    tokens are Kho's. It commits every row on its own, so that a disk that is slow to sync makes it slow to load."""

    about = "local mode with path=; dense and sparse (BM25, IDF by Qdrant, Kho's tokens), prefetch and RRF"
    _AVERAGE = 130

    def __init__(self, folder: Path, rows: int, tenants: int) -> None:
        qdrant: Any = import_module("qdrant_client")
        self._models: Any = qdrant.models
        self._client: Any = qdrant.QdrantClient(path=str(folder))
        self._filtered = tenants > 1
        models = self._models
        self._client.create_collection(
            "rows",
            vectors_config={"meaning": models.VectorParams(size=DIMENSION, distance=models.Distance.COSINE)},
            sparse_vectors_config={"words": models.SparseVectorParams(modifier=models.Modifier.IDF)},
        )

    def versions(self) -> str:
        return f"qdrant-client {version('qdrant-client')}"

    def ingest(self, blocks: Iterable[Block]) -> None:
        for block in blocks:
            payloads = [
                {"tenant": tenant, "text": text} for tenant, text in zip(block.tenants, block.texts, strict=True)
            ]
            words = [self._counted(text) for text in block.texts]
            vectors = {"meaning": block.vectors.tolist(), "words": words}
            batch = self._models.Batch(ids=block.ids, payloads=payloads, vectors=vectors)
            self._client.upsert("rows", batch)

    def _counted(self, text: str) -> Any:
        tokens = index_tokens(text)
        length = 1.2 * (0.25 + 0.75 * len(tokens) / self._AVERAGE)
        weights = {crc32(token.encode()): count * 2.2 / (count + length) for token, count in Counter(tokens).items()}
        return self._models.SparseVector(indices=[*weights], values=[*weights.values()])

    def query(self, tenant: str, text: str, vector: Floats, limit: int) -> list[tuple[int, str]]:
        models, own = self._models, self._own(tenant)
        tokens = {crc32(token.encode()): weight for token, weight in query_tokens(text)}
        sparse = models.SparseVector(indices=[*tokens], values=[*tokens.values()])
        found = self._client.query_points(
            "rows",
            prefetch=[
                models.Prefetch(query=vector.tolist(), using="meaning", filter=own, limit=CANDIDATES),
                models.Prefetch(query=sparse, using="words", filter=own, limit=CANDIDATES),
            ],
            query=models.FusionQuery(fusion=models.Fusion.RRF),
            limit=limit,
            with_payload=["text"],
        )
        return [(point.id, point.payload["text"]) for point in found.points]

    def near(self, tenant: str, vector: Floats, limit: int) -> list[int]:
        found = self._client.query_points(
            "rows",
            query=vector.tolist(),
            using="meaning",
            query_filter=self._own(tenant),
            limit=limit,
            with_payload=False,
        )
        return [point.id for point in found.points]

    def _own(self, tenant: str) -> Any:
        if not self._filtered:
            return None
        models = self._models
        condition = models.FieldCondition(key="tenant", match=models.MatchValue(value=tenant))
        return models.Filter(must=[condition])

    def processes(self) -> list[int]:
        return []

    def close(self) -> None:
        self._client.close()
