-- Codes of boards that a tenant has typed and that no board showed, since when.
CREATE TABLE device_guesses (
    tenant TEXT NOT NULL PRIMARY KEY,
    since BIGINT NOT NULL,
    wrong BIGINT NOT NULL
);
