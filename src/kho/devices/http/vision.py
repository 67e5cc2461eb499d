"""What a board's camera sees: `POST /vision/explain`, a photo and a question in, a text out.

Boards read the answer's text as the result of their tool whatever it says, but only with status 200. So what a person
can be told in a sentence (no model is configured, the model does not answer) is a 200 with `success` false; a request
that is wrong has its status.
"""

import asyncio
from typing import TYPE_CHECKING, Protocol

import orjson

from kho.devices.pairing.headers import stated
from kho.devices.pairing.registrations import Registrations
from kho.devices.pairing.tokens import LIFETIME, Claims, Tokens
from kho.kernel.access import OWN_CREDENTIALS
from kho.kernel.errors import InvalidParams, KhoError, Unauthorized, Unavailable
from kho.kernel.web import Page, Reply, Request
from kho.lib.clock import Clock

if TYPE_CHECKING:  # loaded with the first photo: no other command waits for it
    from python_multipart.multipart import Field, File

PATH = "/vision/explain"
MAX_IMAGE = 5 * 1024 * 1024
OVERHEAD = 64 * 1024
"""Of the form around the photo."""
MAX_QUESTION = 2_000
MAX_PARTS = 16
MAX_ANSWER = 6_000
"""Bytes: the board sends it on as the result of a tool, and 8 KB is all that some gateways take."""
AT_ONCE = 8
USUAL = "What do you see?"
NO_MODEL = "This hub has no model that sees. Whoever runs it can set KHO_VISION__URL and KHO_VISION__MODEL."


class Seer(Protocol):
    async def explain(self, image: bytes, mime: str, question: str) -> str:
        """Raises `errors.Unavailable` when there is no answer to be had."""
        ...


class NotAnImage(KhoError):
    """The file is not a JPEG, PNG, GIF or WebP."""

    code = "NOT_AN_IMAGE"
    status = 415


class Vision:
    def __init__(self, seer: Seer | None, registrations: Registrations, tokens: Tokens, clock: Clock) -> None:
        self._seer = seer
        self._registrations = registrations
        self._tokens = tokens
        self._clock = clock
        self._turns = asyncio.Semaphore(AT_ONCE)

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
            refused=_refused,
        )

    async def answer(self, request: Request) -> Reply:
        await self._check(request)
        question, image = await asyncio.to_thread(_read, request.headers.get("content-type", ""), request.body)
        mime = image_type(image)
        if mime is None:
            raise NotAnImage
        if self._seer is None:
            return _said(False, NO_MODEL)
        try:
            async with self._turns:
                text = await self._seer.explain(image, mime, question)
        except Unavailable as problem:
            return _said(False, f"The model that sees gave no answer: {problem.message}")
        return Reply(200, orjson.dumps({"success": True, "action": "RESPONSE", "response": _cut(text)}))

    async def _check(self, request: Request) -> Claims:
        asked = stated(request.headers, request.query)
        now = self._clock()
        await self._tokens.ready()
        # The board gets a new one only when it connects, and before a call once the old one is some hours old.
        claims = self._tokens.check(asked.token, "vision", now, lifetime=LIFETIME["socket"])
        board = await self._registrations.of(claims.tenant, claims.device) if claims else None
        fits = claims is not None and claims.fits(asked.device or claims.device, asked.client or claims.client)
        if claims is None or board is None or not fits or not claims.holds(board.approved_at, board.revoked_at):
            raise Unauthorized("The token is not valid here. The board gets one when it connects.")
        if board.connected_at is None and self._tokens.check(asked.token, "vision", now) is None:
            raise Unauthorized("The token has run out. The board gets a new one when it connects.")
        return claims


def image_type(content: bytes) -> str | None:
    """By its first bytes; what the sender calls it is not asked."""
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
    """The question and the photo."""
    from python_multipart.exceptions import FormParserError
    from python_multipart.multipart import create_form_parser

    fields: list[tuple[bytes | None, bytes]] = []
    files: list[bytes] = []

    def on_field(field: "Field") -> None:
        if len(fields) + len(files) >= MAX_PARTS:
            raise InvalidParams(f"Send at most {MAX_PARTS} parts.")
        fields.append((field.field_name, field.value or b""))

    def on_file(file: "File") -> None:
        if len(fields) + len(files) >= MAX_PARTS:
            raise InvalidParams(f"Send at most {MAX_PARTS} parts.")
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


def _said(success: bool, message: str, status: int = 200) -> Reply:
    return Reply(status, orjson.dumps({"success": success, "message": message}))


def _refused(error: KhoError) -> Reply:
    return _said(False, error.message, error.status)
