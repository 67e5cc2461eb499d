-- What is known of a folder stands in the folder itself. `document_files` stays, and is only read: for folders that were
-- imported or exported before.
DROP TABLE document_folders;
