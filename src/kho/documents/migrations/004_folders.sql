-- The folders that documents were read from or written to, so that of those that are not used any more nothing is kept.
CREATE TABLE document_folders (
    tenant TEXT NOT NULL,
    folder TEXT NOT NULL,
    parent TEXT NOT NULL,
    used BIGINT NOT NULL, -- counts up: the highest was used last
    PRIMARY KEY (tenant, folder, parent)
);
INSERT INTO document_folders (tenant, folder, parent, used)
SELECT DISTINCT tenant, folder, parent, 0 FROM document_files;
