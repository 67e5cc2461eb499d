"""Vector index in Qdrant: a server or cluster by URL, or its in-process mode.

Qdrant does not take part in our transactions. So `put` and `drop` write to an outbox in the caller's transaction, and
`deliver`, called by the hub's background loop, brings Qdrant up to date soon after. `nearest` queries Qdrant as it is.
It does not deliver first: a search should not wait for a backlog of thousands of vectors, and keyword search finds new
passages at once. A dropped passage may still be returned until the next delivery; its number is never reused.
"""

import asyncio
import json
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from kho.kernel import Database, PassageRef, SearchFilter, Tx, errors
from kho.kernel.call import within
from kho.kernel.ports import Where, each
from kho.lib.clock import Clock, system_clock
from kho.lib.lazy_module import lazy
from kho.storage.leases import SqlLeases
from kho.storage.vector_index import qdrant_outbox as outbox
from kho.storage.vector_index.base import (
    BATCH_SIZE,
    find,
    latest,
    look_up,
    matrix,
    of_all,
    register,
    registered,
    vector_of,
)

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

    from kho.kernel.ports import Vector
    from kho.storage.vector_index import index_server
else:
    (index_server,) = lazy("kho.storage.vector_index.index_server")

log = logging.getLogger(__name__)

T = TypeVar("T")

ENGINE = "qdrant"
REQUEST_TIMEOUT = 10
MAX_REQUESTS = 4
"""Concurrent requests to a server. The in-process mode is not thread-safe and gets one."""
OVERSAMPLING = 2.0
"""Multiple of the limit that Qdrant takes by its int8 copies before it scores with the vectors themselves."""
EF_SEARCH = 128
MAX_ID = 2**63 - 1
"""Of a passage, as databases count. Others cannot be ours."""
MAX_HITS = 10_000
"""Maximum number of hits requested: Qdrant answers in one message."""


class QdrantVectors:
    """The `Vectors` port. `location` is a URL, or ":memory:", or "path:<folder>" for the in-process mode."""

    def __init__(
        self,
        db: Database,
        location: str,
        *,
        api_key: str | None = None,
        prefix: str = "kho",
        clock: Clock = system_clock,
    ) -> None:
        self._db = db
        self._location = location
        self._api_key = api_key
        self._prefix = prefix
        self._clock = clock
        self._local = location == ":memory:" or location.startswith("path:")
        self._threads = ThreadPoolExecutor(1 if self._local else MAX_REQUESTS, thread_name_prefix="kho-qdrant")
        self._client: QdrantClient | None = None
        self._server: index_server.IndexServer | None = None
        self._identity: str | None = None
        self._ready: set[int] = set()
        """Models whose collection is known to exist."""
        self._lease = SqlLeases(clock).rows("vector_deliveries", ("model",), outbox.LEASE_DURATION)

    async def prepare(self, model: str, dimension: int) -> None:
        """Register the model. Its collection is created on the first delivery or search, because Qdrant may be down
        now."""
        await self._db.write(lambda tx: register(tx, ENGINE, model, dimension))

    def put(self, tx: Tx, model: str, rows: "Sequence[tuple[PassageRef, Vector]]") -> None:
        known = find(tx, ENGINE, model)
        rows = latest(rows)
        vectors = matrix(model, known.dimension, [vector for _, vector in rows])
        outbox.add(
            tx,
            known.number,
            (
                (filed.seq, _payload(filed), vector.astype("<f4").tobytes())
                for (filed, _), vector in zip(rows, vectors, strict=True)
            ),
        )

    def move(self, tx: Tx, model: str, rows: Sequence[PassageRef]) -> None:
        known = look_up(tx, ENGINE, model)
        if known is not None:
            outbox.add(tx, known.number, ((filed.seq, _payload(filed), None) for filed in rows))

    def drop(self, tx: Tx, seqs: Sequence[int]) -> None:
        for known in registered(tx, ENGINE):
            outbox.add_deleted(tx, known.number, seqs)

    async def nearest(
        self, model: str, where: Where, vector: "Vector", limit: int, *, timeout: float | None = None
    ) -> list[tuple[int, float]]:
        if limit < 1:
            return []
        searches = (self._near(model, one, vector, limit) for one in each(where))
        return await within(timeout, of_all(searches, limit))

    async def get(
        self, model: str, where: SearchFilter, seqs: Sequence[int], *, timeout: float | None = None
    ) -> "dict[int, Vector]":
        return await within(timeout, self._get(model, where, seqs))

    async def deliver(self) -> int:
        """Send the outbox to Qdrant, and return the number of rows sent.

        Raises `errors.Unavailable` when Qdrant fails: the rows stay, and further calls do nothing until a pause is
        over, which doubles with every failure. Models that another process is delivering are skipped.
        """
        count = 0
        for number in await self._db.read(outbox.models_waiting):
            if await self._db.write(lambda tx, number=number: outbox.claim(tx, self._lease, number, self._clock())):
                count += await self._deliver(number)
        return count

    async def aclose(self) -> None:
        if self._server is not None:
            await self._server.aclose()
        client, self._client = self._client, None
        if client is not None:
            await asyncio.get_running_loop().run_in_executor(self._threads, client.close)
        await asyncio.to_thread(self._threads.shutdown)

    async def _near(self, model: str, where: SearchFilter, vector: "Vector", limit: int) -> list[tuple[int, float]]:
        known = await self._db.read(lambda tx: look_up(tx, ENGINE, model))
        if known is None:
            return []
        query = vector_of(model, known.dimension, vector)
        name = await self._collection(known.number)
        return await self._ask(lambda client: self._search(client, name, where, query, limit))

    async def _get(self, model: str, where: SearchFilter, seqs: Sequence[int]) -> "dict[int, Vector]":
        known = await self._db.read(lambda tx: look_up(tx, ENGINE, model))
        if known is None or not seqs:
            return {}
        name = await self._collection(known.number)
        found = await self._ask(lambda client: _retrieve(client, name, where, seqs))
        rows = matrix(model, known.dimension, list(found.values()))
        return dict(zip(found, rows, strict=True))

    async def _deliver(self, number: int) -> int:
        count = 0
        try:
            name = await self._collection(number)
            while True:
                rows = await self._db.read(lambda tx: outbox.take(tx, number, BATCH_SIZE))
                if not rows:
                    break
                await self._ask(lambda client, rows=rows: _send(client, name, rows))
                numbers = [row.number for row in rows]
                count += len(numbers)
                if not await self._db.write(
                    lambda tx, numbers=numbers: outbox.delivered(tx, self._lease, number, numbers)
                ):
                    return count  # it took too long, and another process continues
        except errors.Unavailable:
            await self._db.write(lambda tx: outbox.failed(tx, self._lease, number, self._clock()))
            raise
        await self._db.write(lambda tx: self._lease.release(tx, number))
        return count

    async def _collection(self, number: int) -> str:
        """Return the name of the model's collection, creating it if needed."""
        if self._identity is None:
            row = await self._db.read(lambda tx: tx.one("SELECT id FROM vector_identity"))
            self._identity = str(row[0]) if row else ""
        name = f"{self._prefix}_{self._identity}_{number}"
        if number not in self._ready:
            row = await self._db.read(
                lambda tx: tx.one("SELECT dimension FROM vector_models WHERE number = $1", number)
            )
            assert row is not None
            await self._ask(lambda client: self._make(client, name, row[0]))
            self._ready.add(number)
        return name

    async def _ask(self, work: "Callable[[QdrantClient], T]") -> T:
        """Run `work` in a thread: even the in-process mode would block the event loop."""
        if not self._local:
            if self._server is None:
                self._server = index_server.IndexServer(self._location, REQUEST_TIMEOUT)
            self._server.need()
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._work, work)

    def _work(self, work: "Callable[[QdrantClient], T]") -> T:
        from qdrant_client.http.exceptions import ApiException

        try:
            return work(self._connected())
        except (ApiException, OSError, ValueError, TypeError, RecursionError) as error:  # or an answer in no known form
            log.warning("qdrant: %s: %s", type(error).__name__, error)
            raise errors.Unavailable(
                "Qdrant does not answer as it should. Try again; the log has the details."
            ) from error

    def _connected(self) -> "QdrantClient":
        from qdrant_client import QdrantClient

        if self._client is None:
            if self._location.startswith("path:"):
                self._client = QdrantClient(path=self._location.removeprefix("path:"))
            elif self._local:
                self._client = QdrantClient(location=self._location)
            else:
                # Else it asks the server for its version now, and warns.
                self._client = QdrantClient(
                    url=self._location,
                    api_key=self._api_key,
                    timeout=REQUEST_TIMEOUT,
                    check_compatibility=False,
                    transport=self._server,
                )
        return self._client

    def _make(self, client: "QdrantClient", name: str, dimension: int) -> None:
        from qdrant_client import models
        from qdrant_client.http.exceptions import UnexpectedResponse

        if client.collection_exists(name):
            return
        try:
            client.create_collection(
                name,
                vectors_config=models.VectorParams(size=dimension, distance=models.Distance.COSINE),
                quantization_config=models.ScalarQuantization(
                    scalar=models.ScalarQuantizationConfig(type=models.ScalarType.INT8, quantile=0.99, always_ram=True)
                ),
            )
        except UnexpectedResponse:
            # Another process may just have created it.
            if not client.collection_exists(name):
                raise
        if self._local:
            return  # the in-process mode scans, and would warn about indexes
        keyword = models.PayloadSchemaType.KEYWORD
        client.create_payload_index(
            name, "owner", models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)
        )
        for field, kind in (("collection", keyword), ("kind", keyword), ("tags", keyword)):
            client.create_payload_index(name, field, kind)
        client.create_payload_index(name, "created_at", models.PayloadSchemaType.INTEGER)

    def _search(
        self, client: "QdrantClient", name: str, where: SearchFilter, query: "Vector", limit: int
    ) -> list[tuple[int, float]]:
        from qdrant_client import models

        limit = min(limit, MAX_HITS)
        params = models.SearchParams(
            hnsw_ef=max(EF_SEARCH, limit),
            quantization=models.QuantizationSearchParams(rescore=True, oversampling=OVERSAMPLING),
        )
        answer = client.query_points(
            name,
            query=query.tolist(),
            query_filter=_filter(where),
            search_params=None if self._local else params,
            limit=limit,
            with_payload=False,
        )
        found = [
            (point.id, min(1.0, max(-1.0, point.score)))
            for point in answer.points
            if isinstance(point.id, int) and 0 <= point.id <= MAX_ID and math.isfinite(point.score)
        ]
        return sorted(found, key=lambda hit: (-hit[1], -hit[0]))


def _send(client: "QdrantClient", name: str, rows: Sequence[outbox.OutboxRow]) -> None:
    import numpy as np
    from qdrant_client import models

    last: dict[int, outbox.OutboxRow] = {}
    for row in rows:
        before = last.get(row.seq)
        # Indexed and then moved: the vector came with the first row.
        last[row.seq] = replace(row, vector=before.vector) if before and row.payload and not row.vector else row
    points = [
        models.PointStruct(
            id=row.seq, payload=json.loads(row.payload), vector=np.frombuffer(row.vector, "<f4").tolist()
        )
        for row in last.values()
        if row.payload is not None and row.vector is not None
    ]
    elsewhere = {row.seq: row.payload for row in last.values() if row.payload is not None and row.vector is None}
    gone = [row.seq for row in last.values() if row.payload is None]
    if points:
        client.upsert(name, points, wait=True)
    if elsewhere:
        _move(client, name, elsewhere)
    if gone:
        client.delete(name, models.PointIdsList(points=list(gone)), wait=True)


def _move(client: "QdrantClient", name: str, payloads: Mapping[int, str]) -> None:
    """Update payloads of existing points only: others may still wait for their vectors, and Qdrant would reject the
    whole request."""
    from qdrant_client import models

    there = client.retrieve(name, list(payloads), with_payload=False)
    changes = [
        models.OverwritePayloadOperation(
            overwrite_payload=models.SetPayload(payload=json.loads(payloads[int(point.id)]), points=[point.id])
        )
        for point in there
    ]
    if changes:
        client.batch_update_points(name, changes, wait=True)


def _retrieve(client: "QdrantClient", name: str, where: SearchFilter, seqs: Sequence[int]) -> "dict[int, Vector]":
    import numpy as np

    records = client.retrieve(name, list(seqs), with_payload=["owner"], with_vectors=True)
    owner = _owner(where.space, where.tenant)
    return {
        int(record.id): np.array(record.vector, np.float32)
        for record in records
        if record.payload and record.payload.get("owner") == owner
    }


def _payload(filed: PassageRef) -> str:
    return json.dumps(
        {
            "owner": _owner(filed.space, filed.tenant),
            "collection": filed.collection,
            "kind": filed.kind,
            "tags": list(filed.tags),
            "created_at": filed.created_at,
        }
    )


def _owner(space: str, tenant: str) -> str:
    # As JSON, so that two different pairs never have the same text.
    return json.dumps([space, tenant])


def _filter(where: SearchFilter) -> Any:
    from qdrant_client import models

    must: list[Any] = [
        models.FieldCondition(key="owner", match=models.MatchValue(value=_owner(where.space, where.tenant)))
    ]
    for key, values in (("collection", where.collections), ("kind", where.kinds), ("tags", where.any_tags)):
        if values:
            must.append(models.FieldCondition(key=key, match=models.MatchAny(any=list(values))))
    must += [models.FieldCondition(key="tags", match=models.MatchValue(value=tag)) for tag in where.tags]
    if where.since is not None or where.until is not None:
        must.append(models.FieldCondition(key="created_at", range=models.Range(gte=where.since, lt=where.until)))
    return models.Filter(must=must)
