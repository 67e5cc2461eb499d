-- How many minutes the clock was ahead of UTC where a message was said, if `at` told: the day of a message is the day there.
ALTER TABLE messages ADD COLUMN at_offset BIGINT;
