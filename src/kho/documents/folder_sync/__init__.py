"""The document tree as a folder of files: `kho docs export` writes it, `kho docs import` reads it back."""
