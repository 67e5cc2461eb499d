-- When a record itself changed: the time in experience_uses also goes up with every query.
ALTER TABLE experiences ADD COLUMN changed_at BIGINT NOT NULL DEFAULT 0;
UPDATE experiences SET changed_at = coalesce(
    (SELECT max(r.replaced_at) FROM experience_revisions AS r
        WHERE r.tenant = experiences.tenant AND r.id = experiences.id),
    (SELECT u.created_at FROM experience_uses AS u WHERE u.tenant = experiences.tenant AND u.id = experiences.id),
    0);
CREATE INDEX experiences_by_change ON experiences (tenant, changed_at, id);
