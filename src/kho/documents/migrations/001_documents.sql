-- A document as it is now: where it stands in the tree, which revision it has, whether it is deleted.
CREATE TABLE documents (
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    parent TEXT NOT NULL,
    -- Orders siblings. There are gaps, so that most moves touch one row; deleted ones keep theirs and come back to it.
    place BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    deleted_at BIGINT,
    -- Names the deletion that took it away: those that went together come back together.
    deletion TEXT,
    PRIMARY KEY (tenant, id)
);
-- With all that counting siblings looks at.
CREATE INDEX documents_by_parent ON documents (tenant, parent, place, id, deleted_at);
CREATE INDEX documents_by_deletion ON documents (tenant, deletion);
CREATE INDEX documents_by_change ON documents (tenant, updated_at);

-- What a document said at each revision. A revision that left the body alone points to the one that brought it.
CREATE TABLE document_revisions (
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    revision BIGINT NOT NULL,
    body_of BIGINT NOT NULL,
    mime_type TEXT NOT NULL,
    metadata TEXT NOT NULL,
    is_human_readable BIGINT NOT NULL,
    change TEXT NOT NULL,
    made_by TEXT NOT NULL,
    made_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, id, revision)
);

CREATE TABLE document_bodies (
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    revision BIGINT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (tenant, id, revision)
);

-- Deletions with a time that is still to come.
CREATE TABLE document_deletions (
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    due_at BIGINT NOT NULL,
    reason TEXT NOT NULL,
    deleted_by TEXT NOT NULL,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX document_deletions_due ON document_deletions (due_at);

-- One row per tenant: whoever changes the shape of its tree holds it, so that two moves cannot close a circle.
CREATE TABLE document_trees (
    tenant TEXT NOT NULL PRIMARY KEY,
    changes BIGINT NOT NULL
);

-- Addresses that are told of events. One process at a time tells each of them: the one that holds it.
CREATE TABLE document_webhooks (
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    url TEXT NOT NULL,
    secret TEXT NOT NULL,
    events TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    held_by TEXT NOT NULL DEFAULT '',
    held_until BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, id)
);

-- What each of them has still to be told, and what could not be told.
CREATE TABLE document_deliveries (
    tenant TEXT NOT NULL,
    webhook TEXT NOT NULL,
    event BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    due_at BIGINT NOT NULL,
    dead BIGINT NOT NULL,
    problem TEXT NOT NULL,
    PRIMARY KEY (tenant, webhook, event)
);
-- The first in line of a webhook, however many dead ones came before it.
CREATE INDEX document_deliveries_in_line ON document_deliveries (tenant, webhook, dead, event);
-- Whether anybody still waits for an event.
CREATE INDEX document_deliveries_by_event ON document_deliveries (tenant, event);
