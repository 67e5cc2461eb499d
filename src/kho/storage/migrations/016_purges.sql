-- What was erased for good (administration/purge). A purge is recorded before it begins, so that it ends even if the process
-- is killed, and so that a restored backup can be purged again. Of a person it has a digest whose key stands beside it:
-- names in a store can be compared with it, and it names nobody.
CREATE TABLE purges (
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    what TEXT NOT NULL,
    requested_by TEXT NOT NULL,
    at BIGINT NOT NULL,
    finished_at BIGINT,
    counts TEXT NOT NULL,
    PRIMARY KEY (tenant, id)
);
