-- When a board connected for the first time; nothing as long as it has only registered.
ALTER TABLE devices ADD COLUMN first_connected_at BIGINT;
UPDATE devices SET first_connected_at = first_seen WHERE toolset <> '' OR owner <> '';
