"""`POST /vision/explain`: takes a photo and a question, returns a text.

Boards read the answer's text as the result of their tool whatever it says, but only with status 200. So problems that a
person can be told in a sentence (no model configured, model does not respond) are a 200 with `success` false; an
invalid request gets its error status.
"""

import asyncio
from dataclasses import field
from typing import TYPE_CHECKING, Protocol

import orjson

from kho.devices.pairing.headers import stated
from kho.devices.pairing.registrations import Registrations
from kho.devices.pairing.tokens import LIFETIME, Claims, Tokens
from kho.kernel import InvalidParams, KhoError, Page, Unauthorized, Unavailable, WebReply, WebRequest
from kho.kernel.access import OWN_CREDENTIALS
from kho.kernel.limits.limiter import Limiter
from kho.lib.dataclass import dataclass

if TYPE_CHECKING:  # imported with the first photo, so that nothing else waits for it
    from python_multipart.multipart import Field, File

PATH = "/vision/explain"
MAX_IMAGE = 5 * 1024 * 1024
OVERHEAD = 64 * 1024
"""Bytes allowed for the form around the photo."""
MAX_QUESTION = 2_000
MAX_PARTS = 16
MAX_ANSWER = 6_000
"""Maximum bytes: the board forwards it as a tool's result, and some gateways take only 8 KB."""
AT_ONCE = 8
USUAL = "What do you see?"
NO_MODEL = "This hub has no vision model. Whoever runs it can set KHO_VISION__URL and KHO_VISION__MODEL."


class Seer(Protocol):
    async def explain(self, image: bytes, mime: str, question: str) -> str:
        """Describe an image. Raises `errors.Unavailable` if the model gives no answer."""
        ...


class NotAnImage(KhoError):
    """The file is not a JPEG, PNG, GIF or WebP."""

    code = "NOT_AN_IMAGE"
    status = 415


@dataclass(slots=True, kw_only=True)
class VisionPage:
    registrations: Registrations
    tokens: Tokens
    seer: Seer | None
    limiter: Limiter | None = None
    turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))

    @property
    def page(self) -> Page:
        return Page(
            PATH,
            self.answer,
            ("POST",),
            "A board's photo, and a question about it.",
            scope=OWN_CREDENTIALS,
            upload=True,
            max_body=MAX_IMAGE + OVERHEAD,
            admits=self._admits,
            refused=_refused,
        )

    async def answer(self, request: WebRequest) -> WebReply:
        claims = await self._check(request)  # again: the photo may have taken minutes to arrive
        question, image = await asyncio.to_thread(_read, request.headers.get("content-type", ""), request.body)
        mime = image_type(image)
        if mime is None:
            raise NotAnImage
        if self.seer is None:
            return _said(False, NO_MODEL)
        if self.limiter is not None:
            self.limiter.allowance(claims.tenant, f"board {claims.device}").take("model_calls")
        try:
            async with self.turns:
                text = await self.seer.explain(image, mime, question)
        except Unavailable as problem:
            return _said(False, f"The vision model did not answer: {problem.message}")
        return WebReply(200, orjson.dumps({"success": True, "action": "RESPONSE", "response": _cut(text)}))

    async def _admits(self, request: WebRequest) -> str:
        return (await self._check(request)).tenant

    async def _check(self, request: WebRequest) -> Claims:
        asked = stated(request.headers, request.query)
        now = self.registrations.clock()
        await self.tokens.ready()
        # Accept older tokens while the board is connected (checked below): it gets a new one only when it connects, and
        # before a call once the old one is some hours old.
        claims = self.tokens.check(asked.token, "vision", now, lifetime=LIFETIME["socket"])
        board = await self.registrations.of(claims.tenant, claims.device) if claims else None
        fits = claims is not None and claims.fits(asked.device or claims.device, asked.client or claims.client)
        if claims is None or board is None or not fits or not claims.holds(board.approved_at, board.revoked_at):
            raise Unauthorized("The token is not valid here. The board gets one when it connects.")
        if board.connected_at is None and self.tokens.check(asked.token, "vision", now) is None:
            raise Unauthorized("The token has expired. The board gets a new one when it connects.")
        return claims


def image_type(content: bytes) -> str | None:
    """Return the MIME type by the first bytes; the sender's claim is ignored."""
    if content.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if content.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if content.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if content.startswith(b"RIFF") and content[8:12] == b"WEBP":
        return "image/webp"
    return None


def _read(content_type: str, body: bytes) -> tuple[str, bytes]:
    """Parse the form; return the question and the photo."""
    from python_multipart.exceptions import FormParserError
    from python_multipart.multipart import create_form_parser

    fields: list[tuple[bytes | None, bytes]] = []
    files: list[bytes] = []

    def check_count() -> None:
        if len(fields) + len(files) >= MAX_PARTS:
            raise InvalidParams(f"Send at most {MAX_PARTS} parts.")

    def on_field(field: "Field") -> None:
        check_count()
        fields.append((field.field_name, field.value or b""))

    def on_file(file: "File") -> None:
        check_count()
        file.file_object.seek(0)
        files.append(file.file_object.read())

    try:
        parser = create_form_parser(
            {"Content-Type": content_type.encode("latin-1")},
            on_field,
            on_file,
            config={"MAX_MEMORY_FILE_SIZE": MAX_IMAGE + OVERHEAD},
        )
        parser.write(body)
        parser.finalize()
    except (FormParserError, ValueError) as problem:
        raise InvalidParams(f"Send the photo as multipart/form-data ({problem}).") from None
    if len(files) != 1:
        raise InvalidParams("Send exactly one file, the photo.", field="file")
    if len(files[0]) > MAX_IMAGE:
        raise InvalidParams(f"The photo has more than {MAX_IMAGE} bytes.", field="file")
    question = next((value for name, value in fields if name == b"question"), b"").decode(errors="replace").strip()
    return question[:MAX_QUESTION] or USUAL, files[0]


def _cut(text: str) -> str:
    content = text.encode()
    return text if len(content) <= MAX_ANSWER else content[: MAX_ANSWER - 3].decode(errors="ignore") + "…"


def _said(success: bool, message: str, status: int = 200) -> WebReply:
    return WebReply(status, orjson.dumps({"success": success, "message": message}))


def _refused(error: KhoError) -> WebReply:
    return _said(False, error.message, error.status)
