"""Text cut into passages where a reader would cut it: headings, paragraphs, definitions, sentences."""
