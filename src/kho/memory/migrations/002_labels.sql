-- Who the conversation is with and which agent holds it: labels to filter by. The keys are how labels are compared.
ALTER TABLE conversations ADD COLUMN user_id TEXT;
ALTER TABLE conversations ADD COLUMN agent_id TEXT;
ALTER TABLE conversations ADD COLUMN user_key TEXT;
ALTER TABLE conversations ADD COLUMN agent_key TEXT;
CREATE INDEX conversations_by_user ON conversations (tenant, user_key, updated_at, id);
CREATE INDEX conversations_by_agent ON conversations (tenant, agent_key, updated_at, id);
-- The name of who said a message, and when it was said where it came from; created_at is when it came here.
ALTER TABLE messages ADD COLUMN speaker TEXT;
ALTER TABLE messages ADD COLUMN at BIGINT;
