-- The word index (words_postgres.py). Derived data: it can be rebuilt from the rows it indexes.
CREATE TABLE words_entries (
    seq BIGSERIAL PRIMARY KEY,
    space TEXT NOT NULL,
    tenant TEXT NOT NULL,
    key TEXT NOT NULL,
    terms BIGINT[] NOT NULL,
    UNIQUE (space, tenant, key)
);

-- Every search reads the list of terms not yet merged into the index, so that list is kept short.
CREATE INDEX words_terms ON words_entries USING gin (terms) WITH (gin_pending_list_limit = 256);
