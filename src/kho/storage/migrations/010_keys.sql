-- What a key is limited to besides its scopes, when it was last used (to about a minute), and the key that replaces it.
ALTER TABLE api_keys ADD COLUMN tools TEXT NOT NULL DEFAULT '';
ALTER TABLE api_keys ADD COLUMN read_only INTEGER NOT NULL DEFAULT 0;
ALTER TABLE api_keys ADD COLUMN last_used_at BIGINT;
ALTER TABLE api_keys ADD COLUMN successor TEXT NOT NULL DEFAULT '';

-- One row. Every change of a key counts it up, so that each process can ask often and cheaply whether one has changed.
CREATE TABLE api_key_changes (number BIGINT NOT NULL);
INSERT INTO api_key_changes (number) VALUES (0);
