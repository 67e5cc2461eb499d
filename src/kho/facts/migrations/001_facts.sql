CREATE TABLE facts (
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    revision BIGINT NOT NULL,
    text TEXT NOT NULL,
    about TEXT,
    tags TEXT NOT NULL,
    source TEXT,
    expires_at BIGINT,
    said_by TEXT NOT NULL,
    said_at BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    forgotten_at BIGINT,
    -- The fact that took its place. The row then stays for the history only.
    replaced_by TEXT,
    -- `about` without case and accents, and the digest of it and the text: equal facts have equal digests.
    topic TEXT NOT NULL,
    digest TEXT NOT NULL,
    PRIMARY KEY (tenant, id)
);

-- Equal facts are kept once, also when two callers say the same at the same moment.
CREATE UNIQUE INDEX facts_equal ON facts (tenant, digest) WHERE replaced_by IS NULL;
CREATE INDEX facts_by_time ON facts (tenant, created_at, id);
CREATE INDEX facts_by_topic ON facts (tenant, topic, created_at, id);
CREATE INDEX facts_by_change ON facts (tenant, updated_at, id);
CREATE INDEX facts_replaced ON facts (tenant, replaced_by);

-- What a fact said before each edit, and who said that.
CREATE TABLE fact_revisions (
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    revision BIGINT NOT NULL,
    text TEXT NOT NULL,
    about TEXT,
    tags TEXT NOT NULL,
    source TEXT,
    expires_at BIGINT,
    said_by TEXT NOT NULL,
    said_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, id, revision)
);
