CREATE TABLE conversations (
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    -- How its first words read, for lists.
    title TEXT NOT NULL,
    messages BIGINT NOT NULL,
    -- The place of the newest message. Places are given out once, also after 'clear'.
    newest BIGINT NOT NULL,
    summary TEXT NOT NULL,
    -- 'kho', or 'client' once a client has set one: then Kho leaves it alone.
    summary_by TEXT NOT NULL,
    -- The place of the last message that the summary covers.
    summarised BIGINT NOT NULL,
    -- Since when messages wait to be summarised, and until when somebody is at it.
    waits_since BIGINT,
    leased_until BIGINT NOT NULL,
    summary_at BIGINT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX conversations_by_activity ON conversations (tenant, updated_at, id);
CREATE INDEX conversations_waiting ON conversations (waits_since);

CREATE TABLE messages (
    tenant TEXT NOT NULL,
    conversation TEXT NOT NULL,
    place BIGINT NOT NULL,
    id TEXT NOT NULL,
    role TEXT NOT NULL,
    content TEXT NOT NULL,
    metadata TEXT,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, conversation, place)
);
-- A client that repeats a message under the same id does not double it.
CREATE UNIQUE INDEX messages_by_id ON messages (tenant, conversation, id);

-- Paragraphs that a summary had to let go of to stay short.
CREATE TABLE folded_summaries (
    tenant TEXT NOT NULL,
    conversation TEXT NOT NULL,
    number BIGINT NOT NULL,
    text TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, conversation, number)
);
