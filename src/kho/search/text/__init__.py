"""Text in Vietnamese, Chinese and English: tokens, stems, stop words, languages."""
