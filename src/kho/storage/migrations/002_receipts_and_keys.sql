-- Answers of idempotent writes, under the caller's request id.
CREATE TABLE receipts (
    tenant TEXT NOT NULL,
    request_id TEXT NOT NULL,
    digest TEXT NOT NULL,
    answer TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, request_id)
);

-- API keys. The key itself is nowhere; its digest is enough to recognise it.
CREATE TABLE api_keys (
    id TEXT NOT NULL PRIMARY KEY,
    sub TEXT NOT NULL,
    tenant TEXT NOT NULL,
    scopes TEXT NOT NULL,
    digest TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    revoked_at BIGINT
);
