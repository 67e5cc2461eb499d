-- Who did what, when and why. Rows are only ever added.
CREATE TABLE document_audit (
    number BIGSERIAL PRIMARY KEY,
    tenant TEXT NOT NULL,
    document TEXT NOT NULL,
    action TEXT NOT NULL,
    actor TEXT NOT NULL,
    reason TEXT NOT NULL,
    before_revision BIGINT,
    after_revision BIGINT,
    request_id TEXT NOT NULL,
    details TEXT NOT NULL,
    at BIGINT NOT NULL
);
CREATE INDEX document_audit_by_tenant ON document_audit (tenant, number);
CREATE INDEX document_audit_by_document ON document_audit (tenant, document, number);
CREATE FUNCTION document_audit_stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'the audit log is only added to'; END $$;
CREATE TRIGGER document_audit_stays BEFORE UPDATE OR DELETE OR TRUNCATE ON document_audit
FOR EACH STATEMENT EXECUTE FUNCTION document_audit_stays();

-- What happened, for those who asked to be told.
CREATE TABLE document_events (
    number BIGSERIAL PRIMARY KEY,
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    type TEXT NOT NULL,
    body TEXT NOT NULL,
    at BIGINT NOT NULL
);
