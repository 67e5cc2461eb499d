-- Raises the wall between tenants on the tables that exist: row-level security, which Kho puts on every table with a
-- tenant column after each migration (storage/postgres/tenant_wall.py). Nothing has to be changed here for that.
SELECT 1;
