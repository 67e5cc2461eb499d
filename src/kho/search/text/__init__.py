"""Text in Vietnamese, Chinese and English: tokens, sentences, languages, characters."""
