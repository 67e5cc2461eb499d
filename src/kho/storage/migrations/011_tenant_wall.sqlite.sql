-- SQLite has no row-level security: there the tenant in every statement is the wall, and tests refuse one without it.
SELECT 1;
