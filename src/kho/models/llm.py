"""A language model behind any server that speaks OpenAI's protocol: OpenAI, Ollama, vLLM, LM Studio and others."""

from collections.abc import Sequence
from typing import Any

from kho.kernel.errors import Unavailable
from kho.kernel.ports import Message, Written
from kho.models.service import Service

ATTEMPTS = 2
MOST_TOKENS = 2_000


class OpenAIChat:
    def __init__(self, service: Service, model: str) -> None:
        self._service = service
        self._model = model

    async def complete(self, messages: Sequence[Message]) -> Written:
        body: dict[str, Any] = {
            "model": self._model,
            "messages": [dict(message) for message in messages],
            "temperature": 0,
            "max_tokens": MOST_TOKENS,
        }
        return await self._service.post("/chat/completions", body, _written, attempts=ATTEMPTS)

    async def aclose(self) -> None:
        await self._service.aclose()


def _written(answer: Any) -> Written:
    match answer:
        case {"choices": [{"message": {"content": str(text)}}, *_]}:
            return Written(text, *_tokens(answer))
        case _:
            raise Unavailable("the language model sent no text")


def _tokens(answer: Any) -> tuple[int, int]:
    """Not every server counts."""
    match answer:
        case {"usage": {"prompt_tokens": int(prompt), "completion_tokens": int(completion)}}:
            return prompt, completion
        case _:
            return 0, 0
