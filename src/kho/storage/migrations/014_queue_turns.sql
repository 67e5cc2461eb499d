-- Whose passages wait for their vectors: tenants take turns, and the next one is looked up here.
ALTER TABLE vector_queue ADD COLUMN tenant TEXT NOT NULL DEFAULT '';

UPDATE vector_queue SET tenant = (SELECT p.tenant FROM passages AS p WHERE p.seq = vector_queue.seq)
WHERE seq IN (SELECT seq FROM passages);

CREATE INDEX vector_queue_turns ON vector_queue (tenant, seq);
