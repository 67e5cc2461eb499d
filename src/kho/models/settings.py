"""Which models are used, and where they are."""

from typing import Literal, Self

from pydantic import Field, SecretStr, model_validator

from kho.kernel.section import ModelUrl, Section

Package = Literal["fastembed", "sentence-transformers"]
"""Packages that run a model in this process."""
Protocol = Literal["cohere", "jina", "tei"]
"""How a reranking server is spoken to."""


class ChatModel(Section):
    """A model behind any server that speaks OpenAI's protocol."""

    url: ModelUrl = ""
    """What comes before /chat/completions, e.g. 'http://127.0.0.1:11434/v1' for Ollama. Empty: none."""
    model: str = ""
    api_key: SecretStr = SecretStr("")

    @model_validator(mode="after")
    def _named(self) -> Self:
        if self.url and not self.model:
            raise ValueError("the url is set, so the name of a model is needed, too (__MODEL)")
        return self


class Llm(ChatModel):
    """A language model, if there is one. It writes summaries and answers."""

    timeout: float = Field(default=60.0, gt=0)


class Vision(ChatModel):
    """A model that sees, for the photos of boards, if there is one."""

    timeout: float = Field(default=30.0, gt=0)


class Embedding(Section):
    """Which model turns text into vectors."""

    provider: Literal["e5", "openai", Package, "hash", "none"] = "e5"
    """'e5' comes with Kho and works offline; 'none' searches by words alone; 'hash' is for tests."""
    url: ModelUrl = "https://api.openai.com/v1"
    """openai: what comes before /embeddings, e.g. 'http://127.0.0.1:11434/v1' for Ollama."""
    model: str = ""
    api_key: SecretStr = SecretStr("")
    dimension: int | None = Field(default=None, ge=8, le=8192)
    """Length of the vectors, when it is known. hash: the length to make."""
    ask_dimension: bool = False
    """openai: asks the server to shorten its vectors to `dimension`."""
    query_prefix: str = ""
    passage_prefix: str = ""
    """Prefixes that a model was trained with, e.g. "query: " and "passage: ". e5 brings its own."""
    timeout: float = Field(default=30.0, gt=0)
    batch: int = Field(default=64, ge=1, le=2048)
    concurrency: int = Field(default=4, ge=1, le=64)
    threads: int = Field(default=1, ge=1, le=64)
    """Cores that embedding in this process may take."""


class Reranking(Section):
    """Which model takes a second look at the best hits. None does by default."""

    provider: Literal[Protocol, Package, "none"] = "none"
    url: ModelUrl = ""
    model: str = ""
    api_key: SecretStr = SecretStr("")
    timeout: float = Field(default=10.0, gt=0)
