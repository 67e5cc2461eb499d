-- Bodies of all revisions count in the quota of bytes, beside what is indexed: see 013_usage.sql of the storage.
INSERT INTO search_versions (space, tenant, shard, version, items, bytes)
SELECT 'documents/revisions', tenant, 0, 1, 0, sum(octet_length(body)) FROM document_bodies WHERE true GROUP BY tenant
ON CONFLICT (space, tenant, shard) DO UPDATE SET bytes = excluded.bytes;
