-- What was added or changed lately.
CREATE INDEX research_documents_by_change ON research_documents (tenant, updated_at, id);
