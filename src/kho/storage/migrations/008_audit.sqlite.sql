-- Who did what to what, when and why, in every slice. Rows are only ever added.
CREATE TABLE audit (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    at BIGINT NOT NULL,
    capability TEXT NOT NULL,
    operation TEXT NOT NULL,
    subject TEXT NOT NULL,
    actor TEXT NOT NULL,
    reason TEXT NOT NULL,
    outcome TEXT NOT NULL,
    request_id TEXT NOT NULL,
    details TEXT NOT NULL
);
CREATE INDEX audit_by_tenant ON audit (tenant, number);
CREATE INDEX audit_by_subject ON audit (tenant, subject, number);
-- Further subjects of one change, such as what was below a deleted document.
CREATE TABLE audit_subjects (
    tenant TEXT NOT NULL,
    subject TEXT NOT NULL,
    number BIGINT NOT NULL,
    details TEXT NOT NULL,
    PRIMARY KEY (tenant, subject, number)
) WITHOUT ROWID;
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit
BEGIN SELECT raise(ABORT, 'the audit trail is only added to'); END;
CREATE TRIGGER audit_is_not_deleted BEFORE DELETE ON audit
BEGIN SELECT raise(ABORT, 'the audit trail is only added to'); END;
CREATE TRIGGER audit_subjects_are_not_changed BEFORE UPDATE ON audit_subjects
BEGIN SELECT raise(ABORT, 'the audit trail is only added to'); END;
CREATE TRIGGER audit_subjects_are_not_deleted BEFORE DELETE ON audit_subjects
BEGIN SELECT raise(ABORT, 'the audit trail is only added to'); END;
