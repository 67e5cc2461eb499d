-- The word index (words_postgres.py). Derived data: it can be rebuilt from the rows it indexes.
CREATE TABLE words_entries (
    seq BIGSERIAL PRIMARY KEY,
    space TEXT NOT NULL,
    tenant TEXT NOT NULL,
    key TEXT NOT NULL,
    -- All of an entry's terms, and those of its head once more: few, so that looking there first is cheap.
    terms BIGINT[] NOT NULL,
    heads BIGINT[] NOT NULL,
    UNIQUE (space, tenant, key)
);

-- Every search reads the list of terms not yet merged into the index, so that list is kept short.
CREATE INDEX words_terms ON words_entries USING gin (terms) WITH (gin_pending_list_limit = 256);
