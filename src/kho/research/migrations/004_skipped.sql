-- Files of a folder that were not read because their kind is unknown: a JSON object, their number by name ending.
ALTER TABLE research_jobs ADD COLUMN skipped TEXT NOT NULL DEFAULT '{}';
