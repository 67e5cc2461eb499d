-- How much of a tenant is indexed, counted with the version in the statement that every write makes anyway: documents of
-- any slice, and bytes of their text. Several rows count together, so that writers on PostgreSQL need not wait for one.
ALTER TABLE search_versions ADD COLUMN items BIGINT NOT NULL DEFAULT 0;
ALTER TABLE search_versions ADD COLUMN bytes BIGINT NOT NULL DEFAULT 0;

INSERT INTO search_versions (space, tenant, shard, version, items, bytes)
SELECT space, tenant, 0, 1, count(*), sum(length)
FROM (
    SELECT space, tenant, sum(octet_length(text)) AS length FROM passages GROUP BY space, tenant, collection, key
) AS documents WHERE true GROUP BY space, tenant
ON CONFLICT (space, tenant, shard) DO UPDATE SET items = excluded.items, bytes = excluded.bytes;

CREATE INDEX search_versions_tenant ON search_versions (tenant);
