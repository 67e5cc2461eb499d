-- MinHash bands, by which near-duplicates are found, of whatever the slices keep (search/indexing/minhash.py). Derived data.
CREATE TABLE similarity_bands (
    space TEXT NOT NULL,
    tenant TEXT NOT NULL,
    collection TEXT NOT NULL,
    band BIGINT NOT NULL,
    key TEXT NOT NULL,
    PRIMARY KEY (space, tenant, collection, band, key)
);
CREATE INDEX similarity_bands_key ON similarity_bands (space, tenant, collection, key);
