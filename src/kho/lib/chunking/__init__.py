"""Splits text into passages at natural boundaries: headings, paragraphs, definitions, sentences."""
