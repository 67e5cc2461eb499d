-- What a search finds: passages of whatever the slices keep. Derived data: slices can file their rows anew.
CREATE TABLE passages (
    seq BIGSERIAL PRIMARY KEY,
    space TEXT NOT NULL,
    tenant TEXT NOT NULL,
    collection TEXT NOT NULL,
    key TEXT NOT NULL,
    part INTEGER NOT NULL,
    kind TEXT NOT NULL,
    tags TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    digest TEXT NOT NULL,
    heading TEXT NOT NULL,
    text TEXT NOT NULL,
    weights TEXT NOT NULL,
    language TEXT NOT NULL
);

CREATE INDEX passages_key ON passages (space, tenant, collection, key);
-- A text that is here already has its vector already.
CREATE INDEX passages_digest ON passages (digest);

-- Passages that wait for their vectors. One process at a time works on them: the one that holds the lease.
CREATE TABLE vector_queue (
    seq BIGINT NOT NULL PRIMARY KEY REFERENCES passages (seq) ON DELETE CASCADE,
    due_at BIGINT NOT NULL,
    attempts INTEGER NOT NULL,
    problem TEXT
);
CREATE INDEX vector_queue_due ON vector_queue (due_at, seq);

-- Work that only one process does at a time, and until when it is its.
CREATE TABLE leases (
    name TEXT NOT NULL PRIMARY KEY,
    owner TEXT NOT NULL,
    until BIGINT NOT NULL
);

-- Goes up with every change, so that an answer that was kept can be told from a stale one.
-- Several rows per tenant: writers that meet here would wait for each other.
CREATE TABLE search_versions (
    space TEXT NOT NULL,
    tenant TEXT NOT NULL,
    shard INTEGER NOT NULL,
    version BIGINT NOT NULL,
    PRIMARY KEY (space, tenant, shard)
);

-- Which form of the index a slice's rows are filed in, and which model made their vectors.
CREATE TABLE search_state (
    name TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
);
