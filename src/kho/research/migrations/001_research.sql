-- name_key is the name as it is compared: NFC and case-folded, so that "Papers" and "papers" are one collection.
CREATE TABLE research_collections (
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    name_key TEXT NOT NULL,
    type TEXT NOT NULL,
    description TEXT NOT NULL,
    created_by TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, id)
);
CREATE UNIQUE INDEX research_collections_by_name ON research_collections (tenant, name_key);

-- place is a digest of what makes a document the same one when it comes again: its path, or its source and title.
-- A digest, because PostgreSQL indexes no text as long as a path may be.
-- sought is its path, source and title, as names are compared: SQLite knows the case of ASCII letters only.
CREATE TABLE research_documents (
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    collection_id TEXT NOT NULL,
    place TEXT NOT NULL,
    sought TEXT NOT NULL,
    origin TEXT NOT NULL,
    path TEXT,
    source TEXT,
    title TEXT NOT NULL,
    format TEXT NOT NULL,
    cut TEXT NOT NULL,
    hash TEXT NOT NULL,
    size BIGINT NOT NULL,
    mtime BIGINT,
    chunks BIGINT NOT NULL,
    kinds TEXT NOT NULL,
    language TEXT NOT NULL,
    tags TEXT NOT NULL,
    author TEXT,
    published TEXT,
    job_id TEXT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, id)
);
CREATE UNIQUE INDEX research_documents_by_place ON research_documents (tenant, collection_id, place);
CREATE INDEX research_documents_by_hash ON research_documents (tenant, hash);

-- Apart from the rows, which are listed by the thousand. Long texts are packed (zlib).
CREATE TABLE research_texts (
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    packed BIGINT NOT NULL,
    text BYTEA NOT NULL,
    PRIMARY KEY (tenant, id)
);

-- MinHash bands, by which near-duplicates are found (search/near.py).
CREATE TABLE research_bands (
    tenant TEXT NOT NULL,
    collection_id TEXT NOT NULL,
    band BIGINT NOT NULL,
    document_id TEXT NOT NULL,
    PRIMARY KEY (tenant, collection_id, band, document_id)
);
CREATE INDEX research_bands_by_document ON research_bands (tenant, document_id);

-- A job belongs to the process that holds its lease; when the lease has run out, another may go on with it.
CREATE TABLE research_jobs (
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    kind TEXT NOT NULL,
    state TEXT NOT NULL,
    request TEXT NOT NULL,
    collection_id TEXT,
    sub TEXT NOT NULL,
    done BIGINT NOT NULL,
    total BIGINT,
    added BIGINT NOT NULL,
    changed BIGINT NOT NULL,
    unchanged BIGINT NOT NULL,
    removed BIGINT NOT NULL,
    failed BIGINT NOT NULL,
    report TEXT NOT NULL,
    error TEXT,
    owner TEXT,
    lease_until BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    finished_at BIGINT,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX research_jobs_by_state ON research_jobs (state, lease_until);
CREATE INDEX research_jobs_by_time ON research_jobs (tenant, created_at, id);

CREATE TABLE research_projects (
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    name_key TEXT NOT NULL,
    description TEXT NOT NULL,
    directory TEXT,
    archived_at BIGINT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, id)
);
CREATE UNIQUE INDEX research_projects_by_name ON research_projects (tenant, name_key);

CREATE TABLE research_project_collections (
    tenant TEXT NOT NULL,
    project_id TEXT NOT NULL,
    collection_id TEXT NOT NULL,
    is_default BIGINT NOT NULL,
    PRIMARY KEY (tenant, project_id, collection_id),
    FOREIGN KEY (tenant, project_id) REFERENCES research_projects (tenant, id) ON DELETE CASCADE,
    FOREIGN KEY (tenant, collection_id) REFERENCES research_collections (tenant, id) ON DELETE CASCADE
);
CREATE INDEX research_project_collections_by_collection ON research_project_collections (tenant, collection_id);

-- The newest 1,000 questions of a tenant.
CREATE TABLE research_history (
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    sub TEXT NOT NULL,
    query TEXT NOT NULL,
    collections TEXT NOT NULL,
    results BIGINT NOT NULL,
    best DOUBLE PRECISION NOT NULL,
    took_us BIGINT NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX research_history_by_time ON research_history (tenant, at, id);

-- One verdict per caller and chunk; a later one replaces it. The digest is the passage's, so that a verdict goes with
-- the text when chunks move; it is empty when the document as a whole is meant.
CREATE TABLE research_feedback (
    tenant TEXT NOT NULL,
    document_id TEXT NOT NULL,
    digest TEXT NOT NULL,
    sub TEXT NOT NULL,
    chunk BIGINT,
    verdict TEXT NOT NULL,
    reason TEXT,
    query TEXT,
    at BIGINT NOT NULL,
    PRIMARY KEY (tenant, document_id, digest, sub)
);
