-- Each model has an index of its own, made when the model is first used; its tables carry its number.
CREATE TABLE vector_models (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    engine TEXT NOT NULL,
    model TEXT NOT NULL,
    dimension INTEGER NOT NULL,
    UNIQUE (engine, model)
);

-- Whose vectors they are, as a number: what a block of vectors belongs to.
CREATE TABLE vector_owners (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    space TEXT NOT NULL,
    tenant TEXT NOT NULL,
    UNIQUE (space, tenant)
);

-- Which database this is: several may share one index server.
CREATE TABLE vector_identity (
    id TEXT NOT NULL PRIMARY KEY
);
INSERT INTO vector_identity (id) VALUES (lower(hex(randomblob(8))));

-- What an index server still has to be told, in order. No payload: forget the passage.
CREATE TABLE vector_outbox (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    model INTEGER NOT NULL REFERENCES vector_models (number) ON DELETE CASCADE,
    seq BIGINT NOT NULL,
    payload TEXT,
    vector BLOB
);

-- Who delivers the outbox of a model, and until when nobody else may. Failures put the next attempt off.
CREATE TABLE vector_deliveries (
    model INTEGER NOT NULL PRIMARY KEY REFERENCES vector_models (number) ON DELETE CASCADE,
    owner TEXT,
    until BIGINT NOT NULL DEFAULT 0,
    attempts INTEGER NOT NULL DEFAULT 0,
    due_at BIGINT NOT NULL DEFAULT 0
);
