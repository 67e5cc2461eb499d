-- The bands are kept with the other indexes now (storage/migrations/007_similarity.sql).
INSERT INTO similarity_bands (space, tenant, collection, band, key)
SELECT 'experiences', tenant, '', band, id FROM experience_bands;
DROP TABLE experience_bands;
