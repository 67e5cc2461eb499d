"""Makes the embedder, the reranker, the language model and the vision model that the settings name."""

from kho.kernel.errors import KhoError
from kho.kernel.ports import Embedder, Reranker
from kho.models.e5.embedder import E5
from kho.models.hash_embedder import HashEmbedder
from kho.models.http_client import ModelClient, RetryPolicy
from kho.models.local import CrossEncoder, LocalEmbedder
from kho.models.openai import EmbeddingOptions, OpenAIChat, OpenAIEmbedder, OpenAIVision
from kho.models.rerank_http import HttpReranker
from kho.models.settings import Embedding, Llm, Reranking, Vision


def embedder(config: Embedding, *, attempts: int = 4, backoff: float = 0.5) -> Embedder | None:
    """None means: keyword search only."""
    match config.provider:
        case "none":
            return None
        case "e5":
            return E5(threads=config.threads)
        case "hash":
            return HashEmbedder(config.dimension or 256)
        case "openai":
            return OpenAIEmbedder(
                _client(config, attempts, backoff),
                EmbeddingOptions(
                    model=_model(config.provider, config.model),
                    dimension=config.dimension,
                    ask_dimension=config.ask_dimension,
                    query_prefix=config.query_prefix,
                    passage_prefix=config.passage_prefix,
                    batch=config.batch,
                    concurrency=config.concurrency,
                ),
            )
        case "fastembed" | "sentence-transformers" as package:
            return LocalEmbedder(
                package,
                _model(package, config.model),
                dimension=config.dimension,
                query_prefix=config.query_prefix,
                passage_prefix=config.passage_prefix,
                threads=config.threads,
            )


def reranker(config: Reranking, *, backoff: float = 0.5, batch: int = 32, concurrency: int = 4) -> Reranker | None:
    match config.provider:
        case "none":
            return None
        case "cohere" | "jina" | "tei" as protocol:
            if not config.url:
                raise KhoError(f"The reranker {protocol} needs a url: set KHO_SEARCH__RERANKER__URL.")
            model = config.model if protocol == "tei" else _model(protocol, config.model)
            client = _client(config, backoff=backoff)
            return HttpReranker(client, protocol, model, batch=batch, concurrency=concurrency)
        case "fastembed" | "sentence-transformers" as package:
            return CrossEncoder(package, _model(package, config.model), threads=1)


def llm(settings: Llm) -> OpenAIChat | None:
    """None means: without one."""
    return OpenAIChat(_client(settings), settings.model) if settings.url else None


def vision(settings: Vision) -> OpenAIVision | None:
    """None means: without one."""
    return OpenAIVision(_client(settings), settings.model) if settings.url else None


def _client(settings: Embedding | Reranking | Llm | Vision, attempts: int = 4, backoff: float = 0.5) -> ModelClient:
    return ModelClient(
        settings.url, settings.api_key.get_secret_value(), RetryPolicy(settings.timeout, attempts, backoff)
    )


def _model(provider: str, model: str) -> str:
    if not model:
        raise KhoError(
            f"{provider} needs the name of a model: set KHO_SEARCH__EMBEDDER__MODEL (of a reranker __RERANKER__MODEL)."
        )
    return model
