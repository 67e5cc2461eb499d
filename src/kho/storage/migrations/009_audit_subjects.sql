-- The further subjects of the rows on a page of the trail.
CREATE INDEX audit_subjects_by_number ON audit_subjects (number, subject);
