-- The word index by passages (words_sqlite.py). Derived data: it can be rebuilt from the passages.
DROP TABLE words_index;
DROP TABLE words_entries;

CREATE TABLE words_entries (
    -- The passage.
    seq INTEGER PRIMARY KEY,
    -- Stands for (space, tenant).
    scope BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    -- A 32-bit number for each token, the first `heads` of them those of the head: an entry is scored from its own
    -- row, so that a common token costs no walk over all that hold it.
    heads INTEGER NOT NULL,
    tokens BLOB NOT NULL
);
CREATE INDEX words_entries_time ON words_entries (scope, created_at);

CREATE VIRTUAL TABLE words_index USING fts5 (
    terms, content = '', contentless_delete = 1, detail = none, tokenize = 'ascii'
);
