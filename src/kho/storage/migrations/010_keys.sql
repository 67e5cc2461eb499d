-- What a key is limited to besides its scopes, and when it was last used (to about a minute).
ALTER TABLE api_keys ADD COLUMN tools TEXT NOT NULL DEFAULT '';
ALTER TABLE api_keys ADD COLUMN read_only INTEGER NOT NULL DEFAULT 0;
ALTER TABLE api_keys ADD COLUMN last_used_at BIGINT;

-- One row. Every change of a key counts it up, so that each process can ask often and cheaply whether one has changed.
CREATE TABLE api_key_changes (number BIGINT NOT NULL);
INSERT INTO api_key_changes (number) VALUES (0);
