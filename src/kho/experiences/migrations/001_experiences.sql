CREATE TABLE experiences (
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    title TEXT NOT NULL,
    problem_description TEXT NOT NULL,
    root_cause TEXT,
    solution TEXT NOT NULL,
    context TEXT,
    keywords TEXT NOT NULL,
    revision BIGINT NOT NULL DEFAULT 1,
    created_by TEXT NOT NULL,
    deleted_at BIGINT,
    PRIMARY KEY (tenant, id)
);

-- What the rank needs, apart from the long texts: every query reads it by the thousand and changes a little of it.
CREATE TABLE experience_uses (
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    query_count BIGINT NOT NULL,
    helpful BIGINT NOT NULL,
    unhelpful BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, id)
);

-- What a record said before each edit.
CREATE TABLE experience_revisions (
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    revision BIGINT NOT NULL,
    fields TEXT NOT NULL,
    replaced_by TEXT NOT NULL,
    replaced_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, id, revision)
);

-- One verdict per caller and record; a later one replaces it.
CREATE TABLE experience_feedback (
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    sub TEXT NOT NULL,
    helpful BIGINT NOT NULL,
    note TEXT,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, id, sub)
);

-- MinHash bands, by which near-duplicates are found (see near.py).
CREATE TABLE experience_bands (
    tenant TEXT NOT NULL,
    band BIGINT NOT NULL,
    id TEXT NOT NULL,
    PRIMARY KEY (tenant, band, id)
);
CREATE INDEX experience_bands_by_id ON experience_bands (tenant, id);
