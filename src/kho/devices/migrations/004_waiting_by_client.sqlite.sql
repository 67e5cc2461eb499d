-- A board that waits has a row for each client id that its id was stated with: nobody who knows the id of a waiting board
-- can take its row, and with it the code that it shows. A tenant still knows a board once.
CREATE TABLE devices_by_client (
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    client TEXT NOT NULL,
    label TEXT NOT NULL DEFAULT '',
    info TEXT NOT NULL DEFAULT '{}',
    approved_at BIGINT,
    approved_by TEXT NOT NULL DEFAULT '',
    revoked_at BIGINT,
    code TEXT,
    code_until BIGINT,
    first_seen BIGINT NOT NULL,
    last_seen BIGINT NOT NULL,
    toolset TEXT NOT NULL DEFAULT '',
    baseline TEXT NOT NULL DEFAULT '{}',
    warnings TEXT NOT NULL DEFAULT '{}',
    owner TEXT NOT NULL DEFAULT '',
    connection TEXT NOT NULL DEFAULT '',
    connected_at BIGINT,
    notified BIGINT NOT NULL DEFAULT 0,
    first_connected_at BIGINT,
    PRIMARY KEY (tenant, id, client)
);
INSERT INTO devices_by_client (
    tenant, id, client, label, info, approved_at, approved_by, revoked_at, code, code_until,
    first_seen, last_seen, toolset, baseline, warnings, owner, connection, connected_at, notified, first_connected_at
) SELECT
    tenant, id, client, label, info, approved_at, approved_by, revoked_at, code, code_until,
    first_seen, last_seen, toolset, baseline, warnings, owner, connection, connected_at, notified, first_connected_at
FROM devices;
DROP TABLE devices;
ALTER TABLE devices_by_client RENAME TO devices;
CREATE INDEX devices_by_id ON devices (id);
CREATE INDEX devices_by_code ON devices (code);
CREATE INDEX devices_by_label ON devices (tenant, label);
CREATE INDEX devices_by_owner ON devices (owner, tenant, toolset);
CREATE UNIQUE INDEX devices_once ON devices (tenant, id) WHERE tenant <> '';
