-- A board as it is known: whose it is, whether it may, what it said of itself, and which process holds its connection.
-- One that nobody has approved yet belongs to the tenant ''.
CREATE TABLE devices (
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    client TEXT NOT NULL,
    label TEXT NOT NULL DEFAULT '',
    info TEXT NOT NULL DEFAULT '{}',
    approved_at BIGINT,
    approved_by TEXT NOT NULL DEFAULT '',
    revoked_at BIGINT,
    -- What it shows until somebody approves it.
    code TEXT,
    code_until BIGINT,
    first_seen BIGINT NOT NULL,
    last_seen BIGINT NOT NULL,
    -- Its tools as last seen, by their digest: identical boards share one row of device_toolsets.
    toolset TEXT NOT NULL DEFAULT '',
    -- What its tools were when they were approved, and those that are something else by now.
    baseline TEXT NOT NULL DEFAULT '{}',
    warnings TEXT NOT NULL DEFAULT '{}',
    -- The process that holds its connection, and which connection that is; '' while there is none.
    owner TEXT NOT NULL DEFAULT '',
    connection TEXT NOT NULL DEFAULT '',
    connected_at BIGINT,
    -- How many notifications it has sent.
    notified BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX devices_by_id ON devices (id);
CREATE INDEX devices_by_code ON devices (code);
CREATE INDEX devices_by_label ON devices (tenant, label);
CREATE INDEX devices_by_owner ON devices (owner, tenant, toolset);

CREATE TABLE device_toolsets (
    tenant TEXT NOT NULL,
    digest TEXT NOT NULL,
    tools TEXT NOT NULL,
    seen_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, digest)
);

-- Processes that hold connections, as long as they say so. `address` is where the others reach them.
CREATE TABLE device_owners (
    process TEXT NOT NULL PRIMARY KEY,
    address TEXT NOT NULL,
    until BIGINT NOT NULL
);

CREATE TABLE device_notifications (
    tenant TEXT NOT NULL,
    device TEXT NOT NULL,
    place BIGINT NOT NULL,
    method TEXT NOT NULL,
    params TEXT NOT NULL,
    at BIGINT NOT NULL,
    -- The process that stored it, and so has told its own listeners.
    process TEXT NOT NULL,
    PRIMARY KEY (tenant, device, place)
);
CREATE INDEX device_notifications_by_time ON device_notifications (tenant, at, device, place);
CREATE INDEX device_notifications_of_all ON device_notifications (at);

-- How many calls a tenant has made; the number of each comes from here.
CREATE TABLE device_counts (
    tenant TEXT NOT NULL PRIMARY KEY,
    calls BIGINT NOT NULL
);

CREATE TABLE device_calls (
    tenant TEXT NOT NULL,
    number BIGINT NOT NULL,
    device TEXT NOT NULL,
    tool TEXT NOT NULL,
    arguments TEXT NOT NULL,
    caller TEXT NOT NULL,
    door TEXT NOT NULL,
    request_id TEXT NOT NULL,
    outcome TEXT NOT NULL,
    message TEXT NOT NULL,
    ms BIGINT,
    at BIGINT NOT NULL,
    PRIMARY KEY (tenant, number)
);
CREATE INDEX device_calls_by_device ON device_calls (tenant, device, number);

-- Calls that wait for their board. `number` is that of the line in device_calls.
CREATE TABLE device_queue (
    tenant TEXT NOT NULL,
    number BIGINT NOT NULL,
    device TEXT NOT NULL,
    tool TEXT NOT NULL,
    arguments TEXT NOT NULL,
    timeout DOUBLE PRECISION NOT NULL,
    until BIGINT NOT NULL,
    PRIMARY KEY (tenant, number)
);
CREATE INDEX device_queue_by_device ON device_queue (tenant, device, number);
CREATE INDEX device_queue_by_end ON device_queue (until);

-- Calls for a board whose connection another process holds, where processes meet in the database only.
CREATE TABLE device_requests (
    id TEXT NOT NULL PRIMARY KEY,
    owner TEXT NOT NULL,
    asker TEXT NOT NULL,
    body TEXT NOT NULL,
    -- new, taken, or answered; one that its asker gave up is deleted.
    state TEXT NOT NULL,
    answer TEXT NOT NULL,
    until BIGINT NOT NULL
);
CREATE INDEX device_requests_by_owner ON device_requests (owner, state);

CREATE TABLE device_keys (
    id TEXT NOT NULL PRIMARY KEY,
    secret TEXT NOT NULL,
    created_at BIGINT NOT NULL
);
