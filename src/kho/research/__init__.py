"""Research collections: folders of papers and notes, asked in plain words; projects that gather them (contract 004)."""
