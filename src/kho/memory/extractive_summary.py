"""Extractive summary, without a language model: the most informative sentences, verbatim and in their own order.

Readers miss names, numbers, dates and decisions most, so sentences with these rank first. The others are ranked by how
many of the conversation's frequent words they contain that no chosen sentence contains yet. Sentences are quoted, never
rephrased, so that only the selection can be wrong.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import log

from kho.lib.chunking.sentences import sentences
from kho.lib.dataclass import dataclass
from kho.lib.lazy_regex import pattern
from kho.search.text.language import language
from kho.search.text.questions import asks
from kho.search.text.tokens import index_tokens, query_tokens

LONGEST_SENTENCE = 300
"""Maximum characters of a sentence; a longer one is cut at a clause or word boundary."""
WORTH = 0.35
"""Minimum score of a sentence without facts, relative to the best score so far."""

_NUMBER = pattern(r"\d")
_AMOUNT = pattern(
    r"\d[\d.,]*\s*(?:%|‰|đ\b|₫|vnđ|vnd|đồng|triệu|tỷ|nghìn|ngàn|usd|eur|cny|rmb|元|块|万|亿|美元|人民币|€|\$|£|¥"
    r"|kg|km|cm|mm|mg|ml|giờ|phút|ngày|tuần|tháng|năm|hours?|minutes?|days?|weeks?|months?|years?|年|月|日|号|点|小时|分钟|天|周)"
    r"|[$€£¥₫]\s*\d",
    re.IGNORECASE,
)
_DATE = pattern(
    r"\b\d{1,4}[-/.]\d{1,2}(?:[-/.]\d{1,4})?\b|\b\d{1,2}[:h]\d{2}\b|\b(?:1[89]|20)\d\d\b|\d+\s*[年月日号]"
    r"|\b(?:january|february|march|april|may|june|july|august|september|october|november|december)\b"
    r"|\b(?:mon|tues|wednes|thurs|fri|satur|sun)day\b|thứ (?:hai|ba|tư|năm|sáu|bảy)|chủ nhật"
    r"|星期[一二三四五六日天]|周[一二三四五六日]",
    re.IGNORECASE,
)
_CONTACT = pattern(r"\S+@\S+\.\S+|https?://\S+|\+?\d[\d .-]{7,}\d")
_NAMED = pattern(
    r"\b(?:tên (?:tôi|mình|em|anh|chị|cháu|là)|tôi là|mình là|em là|my name|i am|i'm|call me|name is)\b"
    r"|我(?:叫|是|姓)|名叫|姓名|叫做",
    re.IGNORECASE,
)
_DECIDED = pattern(
    r"\b(?:decided?|decision|agreed?|confirm(?:ed)?|booked|scheduled|promised?|will|must|deadline|prefers?|allergic|"
    r"quyết định|đồng ý|xác nhận|chốt|thống nhất|hẹn|đặt lịch|phải|cần|hạn|thích|dị ứng)\b"
    r"|决定|同意|确认|预约|约定|必须|需要|截止|喜欢|过敏|答应",
    re.IGNORECASE,
)
_SMALL_TALK = pattern(
    r"^\W*(?:hi|hello|hey|thanks?(?: you)?|thank you(?: very much)?|ok(?:ay)?|yes|no|sure|great|bye|"
    r"good (?:morning|evening)|"
    r"xin chào|chào(?: bạn| anh| chị| em)?|cảm ơn(?: bạn| anh| chị| em)?(?: nhiều)?|vâng|dạ|ừ|được|tạm biệt|"
    r"你好|您好|谢谢(?:你|您)?|好的?|嗯|是的?|再见|不客气)\W*$",
    re.IGNORECASE,
)
_POLITE = pattern(
    r"^\W*(?:(?:dạ|vâng|ok|好的)\W*)*(?:(?:em|anh|chị|tôi|mình|xin) )*"
    r"(?:cảm ơn|cám ơn|không có gì|thank|you're welcome|no problem|谢谢|多谢|感谢|不客气)",
    re.IGNORECASE,
)
LONGEST_POLITENESS = 80
SHORT_ANSWER = 60
"""Characters of a sentence that is quoted together with the question before it."""

SPEAKERS = {
    "vi": {"user": "Người dùng", "assistant": "Trợ lý", "system": "Hệ thống"},
    "zh": {"user": "用户", "assistant": "助手", "system": "系统"},
    "en": {"user": "User", "assistant": "Assistant", "system": "System"},
}


@dataclass(frozen=True, slots=True)
class Said:
    role: str
    content: str
    name: str = ""
    """Of who said it; empty if only the role is known."""


@dataclass(frozen=True, slots=True)
class _Sentence:
    place: int
    """Index of its message (or line) in the input."""
    text: str
    facts: float
    tokens: frozenset[str]


def spoken(messages: Iterable[Said]) -> str:
    """Return the predominant language of the messages; "" if none is recognised."""
    counted: Counter[str] = Counter()
    for said in messages:
        counted[language(said.content)] += min(len(said.content), 1_000)
    counted.pop("", None)
    return counted.most_common(1)[0][0] if counted else ""


def summary(messages: Sequence[Said], most: int, speech: str = "") -> str:
    """Summarise in at most `most` characters, one line per quoted message. Empty if nothing is worth quoting."""
    speech = speech or spoken(messages)
    found = [sentence for place, said in enumerate(messages) for sentence in _sentences(place, said)]
    chosen = _chosen(found, most)
    chosen |= _answered(found, chosen, most - sum(len(one.text) + 1 for one in chosen))
    lines: list[str] = []
    for place, said in enumerate(messages):
        told = [one.text for one in found if one.place == place and one in chosen]
        if told:
            lines.append(_line(said, told, speech))
    return _fitting(lines, most)


def _answered(found: Sequence[_Sentence], chosen: set[_Sentence], room: int) -> set[_Sentence]:
    """Return the questions that short chosen sentences answer: "On Thursday." says nothing without them."""
    short = {one.place for one in chosen if len(one.text) <= SHORT_ANSWER and not asks(one.text)}
    asked: set[_Sentence] = set()
    for one in reversed(found):
        fits = one.place + 1 in short and one not in chosen and asks(one.text) and len(one.text) < room
        if fits and all(other.place != one.place for other in asked):
            asked.add(one)
            room -= len(one.text) + 1
    return asked


def shorter(text: str, most: int) -> str:
    """Shorten a summary to at most `most` characters by keeping its most informative lines."""
    lines = [line for line in text.splitlines() if line.strip()]
    found = [_sentence(place, line) for place, line in enumerate(lines)]
    chosen = {one.place for one in _chosen(found, most)}
    return _fitting([line for place, line in enumerate(lines) if place in chosen], most)


def _sentences(place: int, said: Said) -> list[_Sentence]:
    found: list[_Sentence] = []
    for start, end in sentences(said.content, 0, len(said.content)):
        text = " ".join(said.content[start:end].split())
        if text and not _is_small_talk(text):
            found.append(_sentence(place, _cut(text)))
    return found


def _is_small_talk(text: str) -> bool:
    if _SMALL_TALK.match(text):
        return True
    return len(text) <= LONGEST_POLITENESS and bool(_POLITE.match(text)) and not _facts(text)


def _sentence(place: int, text: str) -> _Sentence:
    tokens = frozenset(token for token, importance in query_tokens(text) if importance >= 0.4)
    return _Sentence(place, text, _facts(text), tokens)


def _facts(text: str) -> float:
    """Score the facts in a sentence (amounts, dates, contacts, names, decisions); a question counts half."""
    found = 2.0 * bool(_AMOUNT.search(text)) + 2.0 * bool(_DATE.search(text)) + 2.0 * bool(_CONTACT.search(text))
    found += 1.0 * bool(_NUMBER.search(text)) + 2.0 * bool(_NAMED.search(text)) + 1.0 * bool(_DECIDED.search(text))
    found += 1.5 * _has_name(text)
    return found if not text.rstrip("”’」』\"' ").endswith(("?", "？")) else 0.5 * found


def _has_name(text: str) -> bool:
    """True if a word is capitalised other than at the start of a sentence."""
    words = text.split()
    return any(
        word.lstrip("\"'“‘(")[:1].isupper() and not before.endswith((".", "!", "?", "…", ":", "-"))
        for before, word in pairwise(words)
    )


def _chosen(found: Sequence[_Sentence], most: int) -> set[_Sentence]:
    times = Counter(token for one in found for token in one.tokens)
    chosen: list[_Sentence] = []
    covered: set[str] = set()
    room = most
    rest = list(dict.fromkeys(found))
    best = 0.0
    while rest:
        one = max(rest, key=lambda it: (_worth(it, times, covered), -it.place))
        worth = _worth(one, times, covered)
        best = max(best, worth)
        rest.remove(one)
        if worth <= 0 or (not one.facts and worth < WORTH * best):
            continue
        if len(one.text) + 1 > room:
            continue
        chosen.append(one)
        covered |= one.tokens
        room -= len(one.text) + 1
    return set(chosen)


def _worth(one: _Sentence, times: Counter[str], covered: set[str]) -> float:
    new = one.tokens - covered
    if not new:
        return 0.0
    central = sum(log(1 + times[token]) for token in new) / (4 + len(one.tokens)) ** 0.7
    return central + one.facts * len(new) / len(one.tokens)


def _line(said: Said, told: Sequence[str], speech: str) -> str:
    speakers = SPEAKERS.get(speech, SPEAKERS["en"])
    joint = "" if speech == "zh" else " "
    return f"- {said.name or speakers.get(said.role, said.role)}: {joint.join(told)}"


def _fitting(lines: Sequence[str], most: int) -> str:
    """Drop the least informative lines until the text fits: the speakers' names were not counted when choosing."""
    kept = list(lines)
    while kept and sum(map(len, kept)) + len(kept) - 1 > most:
        kept.remove(min(kept, key=lambda line: (_facts(line), len(index_tokens(line)))))
    return "\n".join(kept)


def _cut(text: str) -> str:
    if len(text) <= LONGEST_SENTENCE:
        return text
    for mark in ("; ", "；", ", ", "，", " "):
        at = text.rfind(mark, LONGEST_SENTENCE // 2, LONGEST_SENTENCE)
        if at > 0:
            return text[: at + len(mark)].rstrip() + " …"
    return text[:LONGEST_SENTENCE] + " …"
