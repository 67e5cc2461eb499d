"""Creates the embedder, the reranker, the language model and the vision model from the settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kho.kernel.errors import KhoError
from kho.kernel.ports import Embedder, Reranker
from kho.lib.lazy_module import lazy
from kho.models.settings import Embedding, LlmSettings, Reranking, VisionSettings

if TYPE_CHECKING:
    from kho.models import hash_embedder, http_client, local, openai, rerank_http
    from kho.models.e5 import embedder as e5
else:
    e5, hash_embedder, http_client, local, openai, rerank_http = lazy(
        "kho.models.e5.embedder",
        "kho.models.hash_embedder",
        "kho.models.http_client",
        "kho.models.local",
        "kho.models.openai",
        "kho.models.rerank_http",
    )


def embedder(config: Embedding, *, attempts: int = 4, backoff: float = 0.5) -> Embedder | None:
    """Return None for keyword search only."""
    match config.provider:
        case "none":
            return None
        case "e5":
            return e5.E5(config.folder, threads=config.threads or e5.THREADS)
        case "hash":
            return hash_embedder.HashEmbedder(config.dimension or 256)
        case "openai":
            return openai.OpenAIEmbedder(
                _client(config, attempts, backoff),
                openai.EmbeddingOptions(
                    model=_model(config),
                    dimension=config.dimension,
                    ask_dimension=config.ask_dimension,
                    query_prefix=config.query_prefix,
                    passage_prefix=config.passage_prefix,
                    batch=config.batch,
                    concurrency=config.concurrency,
                ),
            )
        case "fastembed" | "sentence-transformers" as package:
            return local.LocalEmbedder(
                package,
                _model(config),
                dimension=config.dimension,
                query_prefix=config.query_prefix,
                passage_prefix=config.passage_prefix,
                threads=config.threads or 1,
            )


def reranker(config: Reranking, *, backoff: float = 0.5, batch: int = 32, concurrency: int = 4) -> Reranker | None:
    match config.provider:
        case "none":
            return None
        case "cohere" | "jina" | "tei" as protocol:
            if not config.url:
                raise KhoError(f"The reranker {protocol} needs a url: set KHO_SEARCH__RERANKER__URL.")
            model = config.model if protocol == "tei" else _model(config)
            client = _client(config, backoff=backoff)
            return rerank_http.HttpReranker(client, protocol, model, batch=batch, concurrency=concurrency)
        case "fastembed" | "sentence-transformers" as package:
            return local.CrossEncoder(package, _model(config), threads=1)


def llm(settings: LlmSettings) -> openai.OpenAIChat | None:
    """Return None if no model is configured."""
    return openai.OpenAIChat(_client(settings), settings.model) if settings.url else None


def vision(settings: VisionSettings) -> openai.OpenAIVision | None:
    """Return None if no model is configured."""
    return openai.OpenAIVision(_client(settings), settings.model) if settings.url else None


def _client(
    settings: Embedding | Reranking | LlmSettings | VisionSettings, attempts: int = 4, backoff: float = 0.5
) -> http_client.ModelClient:
    return http_client.ModelClient(
        settings.url, settings.api_key.get_secret_value(), http_client.RetryPolicy(settings.timeout, attempts, backoff)
    )


def _model(config: Embedding | Reranking) -> str:
    if not config.model:
        raise KhoError(unnamed(config))
    return config.model


def unnamed(config: Embedding | Reranking) -> str:
    """Say that the settings choose a provider, but no model of it."""
    section = "RERANKER" if isinstance(config, Reranking) else "EMBEDDER"
    return f"{config.provider} needs the name of a model: set KHO_SEARCH__{section}__MODEL."
