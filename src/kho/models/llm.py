"""A language model behind any server that speaks OpenAI's protocol: OpenAI, Ollama, vLLM, LM Studio and others."""

from collections.abc import Mapping, Sequence
from typing import Any

from kho.kernel.errors import Unavailable
from kho.models.service import Service

ATTEMPTS = 2
MOST_TOKENS = 2_000


class OpenAIChat:
    def __init__(self, service: Service, model: str) -> None:
        self._service = service
        self._model = model

    async def complete(self, messages: Sequence[Mapping[str, object]]) -> str:
        body: dict[str, Any] = {
            "model": self._model,
            "messages": [dict(message) for message in messages],
            "temperature": 0,
            "max_tokens": MOST_TOKENS,
        }
        return await self._service.post("/chat/completions", body, _text, attempts=ATTEMPTS)

    async def aclose(self) -> None:
        await self._service.aclose()


def _text(answer: Any) -> str:
    match answer:
        case {"choices": [{"message": {"content": str(text)}}, *_]}:
            return text
        case _:
            raise Unavailable("the language model sent no text")
