-- The chain over the audit trail (audit/chain.py). Each tenant has its own; places count from 1 without a gap.
ALTER TABLE audit ADD COLUMN erased_at BIGINT;
-- Rows without a link yet. The row itself brings its entry, so that none is left out, however late it is committed.
CREATE TABLE audit_unsealed (
    tenant TEXT NOT NULL,
    number BIGINT NOT NULL,
    PRIMARY KEY (tenant, number)
);
CREATE TABLE audit_links (
    tenant TEXT NOT NULL,
    place BIGINT NOT NULL,
    number BIGINT NOT NULL UNIQUE,
    sealed_at BIGINT NOT NULL,
    salt BYTEA,
    personal BYTEA NOT NULL,
    content BYTEA NOT NULL,
    digest BYTEA NOT NULL,
    PRIMARY KEY (tenant, place)
);
-- Where the chain begins after old rows have left: the place and digest of the last link that left, and the number of the
-- row of the trail that says so.
CREATE TABLE audit_checkpoints (
    tenant TEXT NOT NULL,
    place BIGINT NOT NULL,
    digest BYTEA NOT NULL,
    number BIGINT NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (tenant, place)
);
INSERT INTO audit_unsealed (tenant, number) SELECT tenant, number FROM audit;
CREATE FUNCTION audit_waits_for_its_link() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN INSERT INTO audit_unsealed (tenant, number) VALUES (NEW.tenant, NEW.number); RETURN NULL; END $$;
CREATE TRIGGER audit_waits_for_its_link AFTER INSERT ON audit
FOR EACH ROW EXECUTE FUNCTION audit_waits_for_its_link();

CREATE FUNCTION audit_is_before_the_chain(of_tenant TEXT, of_number BIGINT) RETURNS boolean LANGUAGE sql AS $$
SELECT EXISTS (
    SELECT 1 FROM audit_links AS link JOIN audit_checkpoints AS start
    ON start.tenant = link.tenant AND start.place >= link.place
    WHERE link.tenant = of_tenant AND link.number = of_number
) $$;
CREATE FUNCTION audit_is_erased(of_tenant TEXT, of_number BIGINT) RETURNS boolean LANGUAGE sql AS $$
SELECT EXISTS (SELECT 1 FROM audit_links WHERE tenant = of_tenant AND number = of_number AND salt IS NULL) $$;

-- The only change of a row: its personal text goes, once its link has given up the salt. A row leaves only when the chain
-- has a later beginning.
CREATE FUNCTION audit_is_only_erased() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND audit_is_before_the_chain(OLD.tenant, OLD.number) THEN RETURN OLD; END IF;
    IF TG_OP = 'UPDATE' AND OLD.erased_at IS NULL AND NEW.erased_at IS NOT NULL
        AND (NEW.number, NEW.tenant, NEW.at, NEW.capability, NEW.operation, NEW.outcome)
            = (OLD.number, OLD.tenant, OLD.at, OLD.capability, OLD.operation, OLD.outcome)
        AND (NEW.subject, NEW.actor, NEW.reason, NEW.request_id, NEW.details) = ('', '', '', '', '{}')
        AND audit_is_erased(OLD.tenant, OLD.number) THEN RETURN NEW; END IF;
    RAISE EXCEPTION 'the audit trail is only added to';
END $$;
DROP TRIGGER audit_is_kept ON audit;
CREATE TRIGGER audit_is_only_erased BEFORE UPDATE OR DELETE ON audit
FOR EACH ROW EXECUTE FUNCTION audit_is_only_erased();
CREATE TRIGGER audit_is_kept BEFORE TRUNCATE ON audit FOR EACH STATEMENT EXECUTE FUNCTION audit_is_only_added_to();

CREATE FUNCTION audit_subjects_leave_with_their_row() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF audit_is_erased(OLD.tenant, OLD.number) OR audit_is_before_the_chain(OLD.tenant, OLD.number) THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'the audit trail is only added to';
END $$;
DROP TRIGGER audit_subjects_are_kept ON audit_subjects;
CREATE TRIGGER audit_subjects_leave_with_their_row BEFORE DELETE ON audit_subjects
FOR EACH ROW EXECUTE FUNCTION audit_subjects_leave_with_their_row();
CREATE TRIGGER audit_subjects_are_kept BEFORE UPDATE OR TRUNCATE ON audit_subjects
FOR EACH STATEMENT EXECUTE FUNCTION audit_is_only_added_to();

CREATE FUNCTION audit_chain_is_only_added_to() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'the chain of the audit trail is only added to'; END $$;
CREATE FUNCTION audit_links_only_lose_their_salt() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND NEW.salt IS NULL
        AND (NEW.tenant, NEW.place, NEW.number, NEW.sealed_at, NEW.personal, NEW.content, NEW.digest)
            = (OLD.tenant, OLD.place, OLD.number, OLD.sealed_at, OLD.personal, OLD.content, OLD.digest)
        THEN RETURN NEW; END IF;
    IF TG_OP = 'DELETE' AND audit_is_before_the_chain(OLD.tenant, OLD.number)
        AND NOT EXISTS (SELECT 1 FROM audit WHERE tenant = OLD.tenant AND number = OLD.number)
        THEN RETURN OLD; END IF;
    RAISE EXCEPTION 'the chain of the audit trail is only added to';
END $$;
CREATE TRIGGER audit_links_only_lose_their_salt BEFORE UPDATE OR DELETE ON audit_links
FOR EACH ROW EXECUTE FUNCTION audit_links_only_lose_their_salt();
CREATE TRIGGER audit_links_are_kept BEFORE TRUNCATE ON audit_links
FOR EACH STATEMENT EXECUTE FUNCTION audit_chain_is_only_added_to();

CREATE FUNCTION audit_checkpoints_are_of_the_chain() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM audit_links WHERE tenant = NEW.tenant AND place = NEW.place AND digest = NEW.digest) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'the chain of the audit trail has no such link';
END $$;
CREATE TRIGGER audit_checkpoints_are_of_the_chain BEFORE INSERT ON audit_checkpoints
FOR EACH ROW EXECUTE FUNCTION audit_checkpoints_are_of_the_chain();
CREATE TRIGGER audit_checkpoints_are_kept BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_checkpoints
FOR EACH STATEMENT EXECUTE FUNCTION audit_chain_is_only_added_to();

CREATE FUNCTION audit_unsealed_waits() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM audit_links WHERE tenant = OLD.tenant AND number = OLD.number) THEN RETURN OLD; END IF;
    RAISE EXCEPTION 'the chain of the audit trail is only added to';
END $$;
CREATE TRIGGER audit_unsealed_waits BEFORE DELETE ON audit_unsealed
FOR EACH ROW EXECUTE FUNCTION audit_unsealed_waits();
CREATE TRIGGER audit_unsealed_is_kept BEFORE UPDATE OR TRUNCATE ON audit_unsealed
FOR EACH STATEMENT EXECUTE FUNCTION audit_chain_is_only_added_to();
