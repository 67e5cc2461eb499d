-- The chain over the audit trail (audit/chain.py). Each tenant has its own; places count from 1 without a gap.
ALTER TABLE audit ADD COLUMN erased_at BIGINT;
-- Rows without a link yet. The row itself brings its entry, so that none is left out whenever it is committed.
CREATE TABLE audit_unsealed (
    tenant TEXT NOT NULL,
    number BIGINT NOT NULL,
    PRIMARY KEY (tenant, number)
) WITHOUT ROWID;
CREATE TABLE audit_links (
    tenant TEXT NOT NULL,
    place BIGINT NOT NULL,
    number BIGINT NOT NULL UNIQUE,
    sealed_at BIGINT NOT NULL,
    salt BLOB,
    personal BLOB NOT NULL,
    content BLOB NOT NULL,
    digest BLOB NOT NULL,
    PRIMARY KEY (tenant, place)
) WITHOUT ROWID;
-- Where the chain begins after old rows have left: the place and digest of the last link that left, and the number of the
-- row of the trail that says so.
CREATE TABLE audit_checkpoints (
    tenant TEXT NOT NULL,
    place BIGINT NOT NULL,
    digest BLOB NOT NULL,
    number BIGINT NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (tenant, place)
) WITHOUT ROWID;
INSERT INTO audit_unsealed (tenant, number) SELECT tenant, number FROM audit;
CREATE TRIGGER audit_waits_for_its_link AFTER INSERT ON audit
BEGIN INSERT INTO audit_unsealed (tenant, number) VALUES (NEW.tenant, NEW.number); END;
-- INSERT OR REPLACE deletes without asking the triggers of deletion.
CREATE TRIGGER audit_is_not_replaced BEFORE INSERT ON audit WHEN EXISTS (SELECT 1 FROM audit WHERE number = NEW.number)
BEGIN SELECT raise(ABORT, 'the audit trail is only added to'); END;
CREATE TRIGGER audit_links_are_not_replaced BEFORE INSERT ON audit_links WHEN EXISTS (
    SELECT 1 FROM audit_links WHERE number = NEW.number OR (tenant = NEW.tenant AND place = NEW.place)
)
BEGIN SELECT raise(ABORT, 'the chain of the audit trail is only added to'); END;
-- The only change of a row: its personal text goes, once its link has given up the salt.
DROP TRIGGER audit_is_not_changed;
CREATE TRIGGER audit_is_only_erased BEFORE UPDATE ON audit WHEN NOT (
    NEW.number IS OLD.number AND NEW.tenant IS OLD.tenant AND NEW.at IS OLD.at AND NEW.capability IS OLD.capability
    AND NEW.operation IS OLD.operation AND NEW.outcome IS OLD.outcome AND OLD.erased_at IS NULL
    AND NEW.erased_at IS NOT NULL AND NEW.subject IS '' AND NEW.actor IS '' AND NEW.reason IS ''
    AND NEW.request_id IS '' AND NEW.details IS '{}'
    AND EXISTS (SELECT 1 FROM audit_links WHERE tenant = OLD.tenant AND number = OLD.number AND salt IS NULL)
)
BEGIN SELECT raise(ABORT, 'the audit trail is only added to'); END;
-- A row leaves only when the chain has a later beginning.
DROP TRIGGER audit_is_not_deleted;
CREATE TRIGGER audit_leaves_with_its_link BEFORE DELETE ON audit WHEN NOT EXISTS (
    SELECT 1 FROM audit_links AS link JOIN audit_checkpoints AS start
    ON start.tenant = link.tenant AND start.place >= link.place
    WHERE link.tenant = OLD.tenant AND link.number = OLD.number
)
BEGIN SELECT raise(ABORT, 'the audit trail is only added to'); END;
DROP TRIGGER audit_subjects_are_not_deleted;
CREATE TRIGGER audit_subjects_leave_with_their_row BEFORE DELETE ON audit_subjects WHEN NOT EXISTS (
    SELECT 1 FROM audit_links AS link
    WHERE link.tenant = OLD.tenant AND link.number = OLD.number AND (link.salt IS NULL OR EXISTS (
        SELECT 1 FROM audit_checkpoints AS start WHERE start.tenant = link.tenant AND start.place >= link.place
    ))
)
BEGIN SELECT raise(ABORT, 'the audit trail is only added to'); END;
CREATE TRIGGER audit_links_only_lose_their_salt BEFORE UPDATE ON audit_links WHEN NOT (
    NEW.tenant IS OLD.tenant AND NEW.place IS OLD.place AND NEW.number IS OLD.number AND NEW.sealed_at IS OLD.sealed_at
    AND NEW.personal IS OLD.personal AND NEW.content IS OLD.content AND NEW.digest IS OLD.digest AND NEW.salt IS NULL
)
BEGIN SELECT raise(ABORT, 'the chain of the audit trail is only added to'); END;
CREATE TRIGGER audit_links_leave_after_their_row BEFORE DELETE ON audit_links WHEN NOT EXISTS (
    SELECT 1 FROM audit_checkpoints WHERE tenant = OLD.tenant AND place >= OLD.place
) OR EXISTS (SELECT 1 FROM audit WHERE tenant = OLD.tenant AND number = OLD.number)
BEGIN SELECT raise(ABORT, 'the chain of the audit trail is only added to'); END;
CREATE TRIGGER audit_checkpoints_are_of_the_chain BEFORE INSERT ON audit_checkpoints WHEN NOT EXISTS (
    SELECT 1 FROM audit_links WHERE tenant = NEW.tenant AND place = NEW.place AND digest = NEW.digest
)
BEGIN SELECT raise(ABORT, 'the chain of the audit trail has no such link'); END;
CREATE TRIGGER audit_checkpoints_are_not_changed BEFORE UPDATE ON audit_checkpoints
BEGIN SELECT raise(ABORT, 'the chain of the audit trail is only added to'); END;
CREATE TRIGGER audit_checkpoints_are_not_deleted BEFORE DELETE ON audit_checkpoints
BEGIN SELECT raise(ABORT, 'the chain of the audit trail is only added to'); END;
CREATE TRIGGER audit_unsealed_is_not_changed BEFORE UPDATE ON audit_unsealed
BEGIN SELECT raise(ABORT, 'the chain of the audit trail is only added to'); END;
CREATE TRIGGER audit_unsealed_waits BEFORE DELETE ON audit_unsealed WHEN NOT EXISTS (
    SELECT 1 FROM audit_links WHERE tenant = OLD.tenant AND number = OLD.number
)
BEGIN SELECT raise(ABORT, 'the chain of the audit trail is only added to'); END;
