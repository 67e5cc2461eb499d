-- The word index by passages (words_postgres.py). Derived data: it can be rebuilt from the passages.
DROP TABLE words_entries;

CREATE TABLE words_entries (
    -- The passage.
    seq BIGINT PRIMARY KEY,
    -- Stands for (space, tenant).
    scope BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    -- How many of the terms, the first ones, are tokens of the head.
    heads INTEGER NOT NULL,
    terms BIGINT[] NOT NULL
);
CREATE INDEX words_entries_time ON words_entries (scope, created_at);

-- Every search reads the list of terms not yet merged into the index, so that list is kept short.
CREATE INDEX words_terms ON words_entries USING gin (terms) WITH (gin_pending_list_limit = 512);
