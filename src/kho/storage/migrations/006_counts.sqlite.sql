-- What each token of an entry counts, in quarters, a byte each, and how many tokens its text has: a closer look at an
-- entry need not read and fold its text again. Entries from before are filed anew when the hub starts; until then they
-- have no counts, and are ranked by the share of the query that they hold.
ALTER TABLE words_entries ADD COLUMN counts BLOB NOT NULL DEFAULT x'';
ALTER TABLE words_entries ADD COLUMN length INTEGER NOT NULL DEFAULT 0;
