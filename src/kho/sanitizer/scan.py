"""Finds secrets and personal data in a text, and masks them.

Pure functions, standard library only. Positions always refer to the original text, although the rules read a normalised
copy (compatibility forms folded, invisible characters dropped) and decode base64 and percent-encoded blobs once.
"""

import base64
import binascii
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, repeat
from urllib.parse import unquote

from kho.lib.dataclass import dataclass
from kho.lib.lazy_regex import pattern as regex
from kho.sanitizer.rule import Rule, Tier, span_of
from kho.sanitizer.secret_rules import (
    CONTEXT_RULES,
    KUBERNETES_DATA,
    KUBERNETES_ENTRY,
    KUBERNETES_SECRET,
    NAME_RULES,
    SHORTEST_VALUE,
    read_assignment,
)
from kho.sanitizer.token_rules import TOKEN_RULES


@dataclass(frozen=True)
class Finding:
    """Position of something that must not be stored. It never holds the text itself."""

    kind: str
    start: int
    end: int
    tier: Tier


@dataclass(frozen=True)
class SecretCandidate:
    """A finding before overlaps are resolved; the lower rank determines the kind."""

    start: int
    end: int
    kind: str
    tier: Tier
    rank: int


# --- personal data --------------------------------------------------------------------------------------------------

# Local parts and domains that belong to no real person.
NOBODY = re.compile(
    r"\A(?:no-?reply|do-?not-?reply|git|hg|svn|user(?:name)?|you|me|name|someone|somebody|foo|bar|x{2,20}|test|e?mail"
    r"|your[\w.-]{0,40})@"
    r"|@(?:[\w-]{1,63}\.){0,4}(?:example|test|invalid|localhost|domain|your-?domain|yourcompany|email"
    r"|users\.noreply\.github)(?:\.[a-z]{2,8}){0,2}\Z"
    r"|\.(?:png|jpe?g|gif|svg|webp|ico|css|js|ts|tsx|py|json|html|md|example|test|invalid|local|service|target)\Z",
    re.IGNORECASE,
)
SHARED_ACCOUNTS = frozenset(
    "user username users you yourname your-name your_name me name myuser someone somebody runner runneradmin ubuntu"
    " debian vagrant node app circleci jenkins travis gitlab-runner ec2-user root vscode shared public default admin"
    " linuxbrew pi git build builder docker dev developer deploy www www-data container codespace gitpod coder jovyan"
    " index about dashboard page pages login xxx foo bar test".split()
)
KNOWN_HOSTS = frozenset(("host.docker.internal", "gateway.docker.internal", "metadata.google.internal"))
CHINESE_ID_WEIGHTS = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)


def is_somebody(match: re.Match[str]) -> bool:
    return not NOBODY.search(match[0])


def is_card(match: re.Match[str]) -> bool:
    """True if length and issuer are right, and the Luhn checksum holds."""
    digits = [int(c) for c in match[0] if c.isdigit()]
    if len(digits) not in (14, 15, 16) or len(set(digits)) < 4:
        return False
    doubled = (d if i % 2 == 0 else sum(divmod(2 * d, 10)) for i, d in enumerate(reversed(digits)))
    return sum(doubled) % 10 == 0


def is_chinese_id(match: re.Match[str]) -> bool:
    number = match[0]
    total = sum(int(d) * w for d, w in zip(number, CHINESE_ID_WEIGHTS, strict=False))
    return "10X98765432"[total % 11] == number[-1].upper()


def is_owned_home(match: re.Match[str]) -> bool:
    return match["name"].lower().rstrip(".") not in SHARED_ACCOUNTS


def is_internal_host(match: re.Match[str]) -> bool:
    """True if it is a host name. Code has attributes called `local` and `internal`: plain words count only where a host
    must be."""
    text, (start, end) = match.string, match.span()
    if match[0].lower() in KNOWN_HOSTS:
        return False
    as_address = (
        text[max(0, start - 3) : start] == "://" or text[start - 1 : start] == "@" or text[end : end + 1] == ":"
    )
    return as_address or any(c.isdigit() or c == "-" for c in match[0].rpartition(".")[0])


def is_call_number(match: re.Match[str]) -> bool:
    """False for numbers reserved for fiction (555-01xx) and for numbers with at most three different digits."""
    digits = "".join(c for c in match[0] if c.isdigit())
    return len(set(digits)) > 3 and digits[-7:-2] != "55501"


def personal(
    kind: str,
    anchors: tuple[str, ...],
    pattern: str,
    accept: Callable[[re.Match[str]], bool] = lambda match: True,
) -> Rule:
    """Build a rule whose pattern is searched for and begins with a look-behind, so that a run of one character is tried
    once."""
    flags = re.IGNORECASE | re.ASCII
    return Rule(kind, regex(pattern, flags), anchors, accept, at_anchor=False, tier="personal", rank=2)


# Not followed by more of the same word or number.
END = r"(?![\w-]|\.[0-9])"
OCTET = r"(?:25[0-5]|2[0-4][0-9]|1?[0-9]{1,2})"
GAP = r"[ .-]?"

PERSONAL_RULES: tuple[Rule, ...] = (
    personal(
        "email", ("@",), r"(?<![\w.+%-])[\w.+%-]{1,64}@(?:[a-z0-9-]{1,63}\.){1,5}[a-z]{2,24}(?![\w-])", is_somebody
    ),
    personal(
        "phone",
        ("3", "5", "7", "8", "9"),
        rf"(?<![\w.+/-])(?:\+84{GAP}|0084|0)[35789][0-9]{GAP}"
        rf"(?:[0-9]{{3}}{GAP}(?:[0-9]{{4}}|[0-9]{{2}}{GAP}[0-9]{{2}})|[0-9]{GAP}[0-9]{{3}}{GAP}[0-9]{{3}}){END}",
        is_call_number,
    ),
    personal(
        "phone",
        ("1",),
        r"(?<![\w.+/-])(?:\+?86[ -]?)?1[3-9][0-9][ -]?[0-9]{4}[ -]?[0-9]{4}" + END,
        is_call_number,
    ),
    personal(
        "phone",
        ("+1", "(", "-"),
        # Ten digits alone may be anything: a country code, brackets or a separator is required.
        r"(?<![\w.+/-])(?:\+?1[ .-]?)?"
        r"(?:\([2-9][0-9]{2}\)[ ]?|[2-9][0-9]{2}[.-]|(?<=\+1)[2-9][0-9]{2}|(?<=\+1[ -])[2-9][0-9]{2}[ ]?)"
        r"[2-9][0-9]{2}[ .-]?[0-9]{4}" + END,
        is_call_number,
    ),
    personal("phone", ("+",), r"(?<![\w.+/)\]-])\+[2-9][0-9]{0,2}(?:[ -]?[0-9]{2,4}){3,4}" + END, is_call_number),
    personal(
        "card",
        ("2", "3", "4", "5", "6"),
        r"(?<![\w.+-])(?:4[0-9]{3}|5[1-5][0-9]{2}|2[2-7][0-9]{2}|3[4-8][0-9]{2}|6(?:011|5[0-9]{2}|2[0-9]{2}))[ -]?"
        r"(?:[0-9]{4}[ -]?[0-9]{4}[ -]?[0-9]{4}|[0-9]{6}[ -]?[0-9]{4,5})" + END,
        is_card,
    ),
    personal(
        "national-id",
        ("19", "20"),
        r"(?<![\w.-])[1-8][0-9]{5}(?:19|20)[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])[0-9]{3}[0-9x](?![\w-])",
        is_chinese_id,
    ),
    personal(
        "national-id",
        ("cccd", "cmnd", "căn cước", "can cuoc", "chứng minh"),
        r"(?:cccd|cmnd|c[aă]n c[uư][oớ]c|ch[uứ]ng minh)[^\n0-9]{0,24}(?P<v>[0-9]{12}|[0-9]{9})(?![\w-])",
    ),
    personal(
        "internal-ip",
        ("10.", "192.168.", "172.", "100.", "169.254."),
        r"(?<![\w.-])(?:192\.168|172\.(?:1[6-9]|2[0-9]|3[01])|100\.(?:6[4-9]|[7-9][0-9]|1[01][0-9]|12[0-7])|169\.254"
        rf"|10\.{OCTET})\.{OCTET}\.{OCTET}{END}",
    ),
    personal("internal-ip", ("fe80:", "fc", "fd"), r"(?<![\w:.])(?:f[cd][0-9a-f]{2}|fe80):[0-9a-f:]{2,36}(?![\w:])"),
    personal(
        "internal-host",
        (".internal", ".local", ".corp", ".lan", ".intranet", ".home.arpa"),
        r"(?<![\w.-])(?:[a-z0-9-]{1,63}\.){1,6}(?:internal|local|corp|lan|intranet|home\.arpa)(?![\w(-]|\.\w)",
        is_internal_host,
    ),
    personal(
        "home-path",
        ("/home/", "/users/", "\\users\\"),
        r"(?<![\w.~-])(?:/home/|[a-z]:[/\\]{1,2}Users[/\\]{1,2}|/Users/)(?P<name>[a-z0-9][\w.-]{0,31})",
        is_owned_home,
    ),
)


# --- the text the rules read ----------------------------------------------------------------------------------------

# Zero-width and other invisible characters: they break up a token without changing how it looks.
INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
)
# Unit of folding: a character with the marks that follow it.
CLUSTER = re.compile(f"[{INVISIBLE}]|.[\u0300-\u036f]{{0,8}}", re.DOTALL)
# Beyond ASCII, with the letter before, which a mark may belong to.
FOREIGN = re.compile("[\\0-\\x7f]?[^\\0-\\x7f]{1,1000}")
IS_INVISIBLE = re.compile(f"[{INVISIBLE}]")


@dataclass(frozen=True)
class NormalisedText:
    """The normalised text and, unless it equals the original, the original position of each character."""

    text: str
    origins: list[int] | None

    def original_span(self, start: int, end: int) -> tuple[int, int]:
        if self.origins is None:
            return start, end
        # One original character may become several, so the end can fall inside it.
        return self.origins[start], max(self.origins[end], self.origins[end - 1] + 1)


@lru_cache(maxsize=4096)
def fold(cluster: str) -> str:
    return "" if IS_INVISIBLE.match(cluster) else unicodedata.normalize("NFKC", cluster)


def make_readable(text: str) -> NormalisedText:
    if text.isascii() or (not IS_INVISIBLE.search(text) and unicodedata.is_normalized("NFKC", text)):
        return NormalisedText(text, None)
    parts: list[str] = []
    origins: list[int] = []
    at = 0
    for run in FOREIGN.finditer(text):
        parts.append(text[at : run.start()])
        origins.extend(range(at, run.start()))
        at = run.start()
        for cluster in CLUSTER.findall(run[0]):
            folded = fold(cluster)
            parts.append(folded)
            origins.extend(repeat(at, len(folded)))
            at += len(cluster)
    parts.append(text[at:])
    origins.extend(range(at, len(text) + 1))
    return NormalisedText("".join(parts), origins)


ASCII_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


def lower_in_place(text: str) -> str:
    """Convert to lower case of the same length, so that positions stay valid: a few letters grow when lowered."""
    lowered = text.lower()
    return lowered if len(lowered) == len(text) else text.translate(ASCII_LOWER)


# --- detectors ------------------------------------------------------------------------------------------------------


def positions(lowered: str, literal: str) -> Iterator[int]:
    at = lowered.find(literal)
    while at >= 0:
        yield at
        at = lowered.find(literal, at + len(literal))


def at_anchors(rule: Rule, text: str, lowered: str) -> Iterator[re.Match[str]]:
    for anchor in rule.anchors:
        at = lowered.find(anchor)
        while at >= 0:
            match = rule.pattern.match(text, at)
            if match:
                yield match
            # A match is judged as a whole: searching again inside it would make a run of anchors quadratic.
            at = lowered.find(anchor, max(at + len(anchor), match.end() if match else 0))


def by_rules(rules: Sequence[Rule], text: str, lowered: str) -> Iterator[SecretCandidate]:
    for rule in rules:
        if not any(anchor in lowered for anchor in rule.anchors):
            continue
        for match in at_anchors(rule, text, lowered) if rule.at_anchor else rule.pattern.finditer(text):
            if rule.accept(match):
                yield SecretCandidate(*span_of(match), rule.kind, rule.tier, rule.rank)


def by_name(text: str, lowered: str) -> Iterator[SecretCandidate]:
    """Find values that follow a word for a secret."""
    for rule in NAME_RULES:
        for name in rule.names:
            for at in positions(lowered, name):
                for tail in rule.tails:
                    match = tail.match(text, at + len(name))
                    if not match:
                        continue
                    start, end = match.span(match.lastgroup or 0)
                    # The second test is for speed: a "value" that repeats the name is hostile or a list of names.
                    if end - start < SHORTEST_VALUE or lowered.count(name, start, end) > 1:
                        continue
                    if rule.accept(read_assignment(match, name)):
                        yield SecretCandidate(start, end, rule.kind, "secret", 1)
                        break


def in_kubernetes_secrets(text: str) -> Iterator[SecretCandidate]:
    if "Secret" not in text or not KUBERNETES_SECRET.search(text):
        return
    for block in KUBERNETES_DATA.finditer(text):
        entry = KUBERNETES_ENTRY.match(text, block.end())
        while entry:
            yield SecretCandidate(*entry.span("v"), "kubernetes-secret", "secret", 1)
            entry = KUBERNETES_ENTRY.match(text, entry.end())


def secrets_in(text: str, lowered: str) -> Iterator[SecretCandidate]:
    yield from by_rules(TOKEN_RULES, text, lowered)
    yield from by_rules(CONTEXT_RULES, text, lowered)
    yield from by_name(text, lowered)
    yield from in_kubernetes_secrets(text)


BASE64_BLOB = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{24,65536}={0,2}")
PERCENT_BLOB = re.compile(r"(?<![A-Za-z0-9%._~+!*-])[A-Za-z0-9%._~+!*-]{12,8192}")


def decode_base64(blob: str) -> str | None:
    """Return the decoded text; None for anything that is not base64 of text."""
    body = blob.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        decoded = base64.b64decode(body + "=" * (-len(body) % 4), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
    return decoded if decoded.isascii() or "\x00" not in decoded else None


def decode_percent(blob: str) -> str | None:
    return unquote(blob) if "%" in blob else None


# No rule matches across it, so that many small blobs can be scanned together.
BETWEEN_BLOBS = "\n\0\n"


def in_encoded_blobs(text: str) -> Iterator[SecretCandidate]:
    """Find secrets one decoding away. The whole blob is reported, as its parts mean nothing alone."""
    blobs: list[re.Match[str]] = []
    inner: list[str] = []
    for pattern, decode in ((BASE64_BLOB, decode_base64), (PERCENT_BLOB, decode_percent)):
        for blob in pattern.finditer(text):
            if decoded := decode(blob[0]):
                blobs.append(blob)
                inner.append(decoded + BETWEEN_BLOBS)
    if not blobs:
        return
    ends = list(accumulate(map(len, inner)))
    joined = "".join(inner)
    for secret in secrets_in(joined, lower_in_place(joined)):
        blob = blobs[bisect_right(ends, secret.start)]
        yield SecretCandidate(blob.start(), blob.end(), secret.kind, "secret", 2)


PIECE, OVERLAP = 256 * 1024, 36 * 1024
"""Characters of a long text that are scanned at once, and those that the next piece sees again: more than the longest
secret, a private key."""


# --- public ---------------------------------------------------------------------------------------------------------


def join_overlapping(candidates: list[SecretCandidate]) -> list[SecretCandidate]:
    """Merge overlapping candidates into one that covers them all, with the kind of the most specific and then longest
    one."""
    joined: list[SecretCandidate] = []
    for new in sorted(candidates, key=lambda c: c.start):
        if joined and new.start < joined[-1].end:
            last = joined.pop()
            best = min(last, new, key=lambda c: (c.rank, c.start - c.end))
            new = SecretCandidate(last.start, max(last.end, new.end), best.kind, best.tier, best.rank)
        joined.append(new)
    return joined


def settle(candidates: list[SecretCandidate]) -> list[SecretCandidate]:
    """Resolve overlaps. Where personal data overlaps a secret (`user:password@host.vn`), the secret is kept."""
    secrets = join_overlapping([c for c in candidates if c.tier == "secret"])
    ends = [secret.end for secret in secrets]

    def is_free(candidate: SecretCandidate) -> bool:
        following = bisect_right(ends, candidate.start)
        return following == len(secrets) or secrets[following].start >= candidate.end

    people = join_overlapping([c for c in candidates if c.tier == "personal"])
    return sorted([*secrets, *filter(is_free, people)], key=lambda c: c.start)


def scan(text: str, *, personal: bool = True) -> list[Finding]:
    """Return everything in the text that must not be stored, in order and without overlaps. Without `personal`, only
    secrets are looked for."""
    found = [one for start, end in pieces(text) for one in candidates_in(text[start:end], start, personal)]
    return [Finding(c.kind, c.start, c.end, c.tier) for c in settle(found)]


def pieces(text: str) -> Iterator[tuple[int, int]]:
    """Cut a long text at line ends into pieces that overlap. One pattern keeps the interpreter to itself while it goes
    over a text, and all other threads wait."""
    start = 0
    while len(text) - start > PIECE + OVERLAP:
        step = max(text.rfind("\n", start + PIECE // 2, start + PIECE) + 1, text.rfind(" ", start, start + PIECE) + 1)
        following = step if step > start + PIECE // 2 else start + PIECE
        yield start, following + OVERLAP
        start = following
    yield start, len(text)


def candidates_in(piece: str, offset: int, personal: bool) -> Iterator[SecretCandidate]:
    readable = make_readable(piece)
    lowered = lower_in_place(readable.text)
    found = [*secrets_in(readable.text, lowered), *in_encoded_blobs(readable.text)]
    if personal:
        found += by_rules(PERSONAL_RULES, readable.text, lowered)
    for one in found:
        start, end = readable.original_span(one.start, one.end)
        yield SecretCandidate(start + offset, end + offset, one.kind, one.tier, one.rank)


def mask(text: str, findings: Sequence[Finding]) -> str:
    """Replace each finding by the name of its kind."""
    parts: list[str] = []
    done = 0
    for finding in sorted(findings, key=lambda f: f.start):
        parts += (text[done : finding.start], f"<{finding.kind}>")
        done = finding.end
    return "".join((*parts, text[done:]))
