"""Settings of the models: which are used, and where they are."""

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr

from kho.kernel.section import ModelUrl, Section

Package = Literal["fastembed", "sentence-transformers"]
"""Packages that run a model in this process."""
Protocol = Literal["cohere", "jina", "tei"]
"""Protocol of a reranking server."""


class ChatModel(Section):
    """A model on any server with an OpenAI-compatible API."""

    url: ModelUrl = ""
    """Base URL before /chat/completions, e.g. 'http://127.0.0.1:11434/v1' for Ollama. Empty: no model."""
    model: str = ""
    api_key: SecretStr = SecretStr("")


class LlmSettings(ChatModel):
    """Optional language model for summaries and answers."""

    timeout: float = Field(default=60.0, gt=0)


class VisionSettings(ChatModel):
    """Optional vision model for the photos of boards."""

    timeout: float = Field(default=30.0, gt=0)


class Embedding(Section):
    """Embedding model."""

    provider: Literal["e5", "openai", Package, "hash", "none"] = "e5"
    """'e5' comes with Kho and works offline; 'none' is keyword search only; 'hash' is for tests."""
    folder: Path | None = None
    """e5: where `kho models install` puts the model if no package brings it. `models` in the data folder if not set."""
    url: ModelUrl = "https://api.openai.com/v1"
    """openai: base URL before /embeddings, e.g. 'http://127.0.0.1:11434/v1' for Ollama."""
    model: str = ""
    api_key: SecretStr = SecretStr("")
    dimension: int | None = Field(default=None, ge=8, le=8192)
    """Length of the vectors, if known. hash: the length to make."""
    ask_dimension: bool = False
    """openai: ask the server to shorten its vectors to `dimension`."""
    query_prefix: str = ""
    passage_prefix: str = ""
    """Prefixes that a model was trained with, e.g. "query: " and "passage: ". e5 has its own."""
    timeout: float = Field(default=30.0, gt=0)
    batch: int = Field(default=64, ge=1, le=2048)
    concurrency: int = Field(default=4, ge=1, le=64)
    threads: int | None = Field(default=None, ge=1, le=64)
    """Cores that embedding in this process may use. By default e5 uses two, fewer while others need them; the packages
    use one."""


class Reranking(Section):
    """Model that rescores the best hits. None by default."""

    provider: Literal[Protocol, Package, "none"] = "none"
    url: ModelUrl = ""
    model: str = ""
    api_key: SecretStr = SecretStr("")
    timeout: float = Field(default=10.0, gt=0)
