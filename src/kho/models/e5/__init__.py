"""multilingual-e5-small, the default embedder, on onnxruntime."""
