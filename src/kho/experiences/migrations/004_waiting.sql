-- Records that wait for an approval. They are in a table of their own, so that nothing that reads records finds them.
CREATE TABLE experience_submissions (
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    record TEXT NOT NULL,
    submitted_by TEXT NOT NULL,
    submitted_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX experience_submissions_by_time ON experience_submissions (tenant, submitted_at, id);
