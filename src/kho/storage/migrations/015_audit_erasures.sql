-- Since now a row of the trail names the places whose personal text was erased, and text that is gone elsewhere is a break
-- (audit/verification.py). This one names what was erased before.
INSERT INTO audit (tenant, at, capability, operation, subject, actor, reason, outcome, request_id, details)
SELECT
    tenant, COALESCE(max(at), 0), 'audit', 'erase_text', '', '', '', 'done', '',
    '{"rows":' || CAST(sum(places) AS BIGINT) || ',"places":['
    || string_agg('[' || low || ',' || high || ']', ',' ORDER BY low) || ']}'
FROM (
    SELECT tenant, min(place) AS low, max(place) AS high, count(*) AS places, max(erased_at) AS at
    FROM (
        SELECT
            link.tenant AS tenant, link.place AS place, audit.erased_at AS erased_at,
            link.place - row_number() OVER (PARTITION BY link.tenant ORDER BY link.place) AS run
        FROM audit_links AS link
        LEFT JOIN audit ON audit.tenant = link.tenant AND audit.number = link.number
        WHERE link.salt IS NULL
    ) AS erased
    GROUP BY tenant, run
) AS runs
GROUP BY tenant;
