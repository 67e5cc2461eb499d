-- The bands are kept with the other indexes now (storage/migrations/007_similarity.sql).
INSERT INTO similarity_bands (space, tenant, collection, band, key)
SELECT 'research', tenant, collection_id, band, document_id FROM research_bands;
DROP TABLE research_bands;
