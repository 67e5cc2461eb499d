-- The word index (words_sqlite.py). Derived data: it can be rebuilt from the rows it indexes.
CREATE TABLE words_entries (
    seq INTEGER PRIMARY KEY,
    space TEXT NOT NULL,
    tenant TEXT NOT NULL,
    key TEXT NOT NULL,
    UNIQUE (space, tenant, key)
);

CREATE VIRTUAL TABLE words_index USING fts5 (
    terms, content = '', contentless_delete = 1, detail = none, tokenize = 'ascii'
);
