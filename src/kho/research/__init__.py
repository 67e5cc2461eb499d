"""Research collections: folders of papers and notes, ingested, asked, grouped into projects (contract 004)."""
