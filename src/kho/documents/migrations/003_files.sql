-- Which file of a folder a document was last read from, or written to, and below which document the folder was put.
CREATE TABLE document_files (
    tenant TEXT NOT NULL,
    folder TEXT NOT NULL,
    parent TEXT NOT NULL,
    path TEXT NOT NULL,
    id TEXT NOT NULL,
    PRIMARY KEY (tenant, folder, parent, path)
);
CREATE INDEX document_files_by_id ON document_files (tenant, id);
