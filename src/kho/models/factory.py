"""Makes the embedder, the reranker, the language model and the vision model that the settings name."""

from dataclasses import dataclass, field
from typing import get_args

from kho.kernel.errors import KhoError
from kho.kernel.ports import Embedder, Reranker
from kho.models.e5.embedder import E5
from kho.models.hash_embedder import HashEmbedder
from kho.models.http_client import ModelClient, RetryPolicy
from kho.models.local import CrossEncoder, LocalEmbedder, Package
from kho.models.openai import EmbeddingOptions, OpenAIChat, OpenAIEmbedder, OpenAIVision
from kho.models.rerank_http import HttpReranker, Protocol

EMBEDDERS = ("e5", "openai", *get_args(Package), "hash", "none")
RERANKERS = (*get_args(Protocol), *get_args(Package), "none")


@dataclass(frozen=True, slots=True)
class EmbedderConfig:
    provider: str = "e5"
    """One of EMBEDDERS. "none": search by words alone."""
    url: str = "https://api.openai.com/v1"
    """openai: what comes before /embeddings. Ollama: http://127.0.0.1:11434/v1."""
    model: str = ""
    api_key: str = field(default="", repr=False)
    dimension: int | None = None
    """Length of the vectors, when it is known. hash: the length to make."""
    ask_dimension: bool = False
    """openai: asks the server to shorten its vectors to `dimension`."""
    query_prefix: str = ""
    passage_prefix: str = ""
    """Prefixes that a model was trained with, e.g. "query: " and "passage: ". e5 brings its own."""
    timeout: float = 30.0
    attempts: int = 4
    backoff: float = 0.5
    batch: int = 64
    concurrency: int = 4
    threads: int = 1
    """For models in this process: processors that one piece of work may take."""


@dataclass(frozen=True, slots=True)
class RerankerConfig:
    provider: str = "none"
    """One of RERANKERS."""
    url: str = ""
    """Address before /rerank, e.g. https://api.cohere.com/v2."""
    model: str = ""
    api_key: str = field(default="", repr=False)
    timeout: float = 10.0
    backoff: float = 0.5
    batch: int = 32
    concurrency: int = 4
    threads: int = 1


def embedder(config: EmbedderConfig) -> Embedder | None:
    """None means: by words alone."""
    match config.provider:
        case "none":
            return None
        case "e5":
            return E5(threads=config.threads)
        case "hash":
            return HashEmbedder(config.dimension or 256)
        case "openai":
            patience = RetryPolicy(config.timeout, config.attempts, config.backoff)
            return OpenAIEmbedder(
                ModelClient(config.url, config.api_key, patience),
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
        case unknown:
            raise KhoError(f"There is no embedder {unknown!r}: choose one of {', '.join(EMBEDDERS)}.")


def reranker(config: RerankerConfig) -> Reranker | None:
    match config.provider:
        case "none":
            return None
        case "cohere" | "jina" | "tei" as protocol:
            if not config.url:
                raise KhoError(f"The reranker {protocol} needs a url: set KHO_SEARCH__RERANKER__URL.")
            model = config.model if protocol == "tei" else _model(protocol, config.model)
            service = ModelClient(config.url, config.api_key, RetryPolicy(config.timeout, backoff=config.backoff))
            return HttpReranker(service, protocol, model, batch=config.batch, concurrency=config.concurrency)
        case "fastembed" | "sentence-transformers" as package:
            return CrossEncoder(package, _model(package, config.model), threads=config.threads)
        case unknown:
            raise KhoError(f"There is no reranker {unknown!r}: choose one of {', '.join(RERANKERS)}.")


@dataclass(frozen=True, slots=True)
class LlmConfig:
    url: str = ""
    model: str = ""
    api_key: str = field(default="", repr=False)
    timeout: float = 60.0


def llm(config: LlmConfig) -> OpenAIChat | None:
    """None means: without one."""
    if not config.url:
        return None
    return OpenAIChat(ModelClient(config.url, config.api_key, RetryPolicy(config.timeout)), config.model)


def vision(config: LlmConfig) -> OpenAIVision | None:
    """None means: without one."""
    if not config.url:
        return None
    return OpenAIVision(ModelClient(config.url, config.api_key, RetryPolicy(config.timeout)), config.model)


def _model(provider: str, model: str) -> str:
    if not model:
        raise KhoError(
            f"{provider} needs the name of a model: set KHO_SEARCH__EMBEDDER__MODEL (of a reranker __RERANKER__MODEL)."
        )
    return model
