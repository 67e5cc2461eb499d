"""Pairing of boards: headers, codes, approval, tokens."""
