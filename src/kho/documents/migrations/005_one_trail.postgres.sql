-- What was done to documents is now in the one audit trail of all slices, each line a row of its own as before.
INSERT INTO audit (tenant, at, capability, operation, subject, actor, reason, outcome, request_id, details)
SELECT tenant, at, 'documents', action, document, actor, reason, 'done', request_id,
    '{"before_revision":' || COALESCE(CAST(before_revision AS TEXT), 'null')
    || ',"after_revision":' || COALESCE(CAST(after_revision AS TEXT), 'null')
    || CASE WHEN details = '{}' THEN '}' ELSE ',' || substr(details, 2) END
FROM document_audit ORDER BY number;
DROP TABLE document_audit;
DROP FUNCTION document_audit_stays();
-- The caller who set the time: what is carried out later is done in their name, whoever is said to delete it.
ALTER TABLE document_deletions ADD COLUMN scheduled_by TEXT NOT NULL DEFAULT '';
UPDATE document_deletions SET scheduled_by = deleted_by;
