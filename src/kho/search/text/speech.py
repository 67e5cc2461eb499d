"""Words by which one asks who said something and when, in Vietnamese, Chinese and English."""

from kho.lib.lazy_regex import pattern
from kho.search.text.stopwords import ENGLISH, HAN, UNMARKED, VIETNAMESE

SPEECH = frozenset(
    "say says said saying tell tells told telling talk talks talked talking speak speaks spoke spoken speaking mention "
    "mentions mentioned write writes wrote written writing message messages messaged post posts posted reply replies "
    "replied answer answers answered comment comments commented chat chats chatted discuss discussed conversation "
    "conversations ask asks asked asking question questions "
    "nói kể bảo nhắn viết hỏi đáp trả lời tin chuyện trò phát biểu noi ke nhan viet hoi dap tra loi chuyen tro".split()
)
TIME = frozenset(
    "day date morning afternoon evening night week month last latest recently lately something anything everything "
    "things thing ngày hôm vào lúc sáng trưa chiều tối đêm tuần tháng trước rồi mới những gần câu lời điều "
    "ngay hom luc sang trua chieu toi dem tuan thang truoc roi moi gan cau dieu".split()
)
_HAN_SPEECH = pattern("发消息|发言|留言|聊天|回答|回复|告诉|提到|提过|谈到|问题|消息|[说說讲講谈談聊问問答写寫话話提]")
_HAN_TIME = pattern("那一?天|当天|这天|早上|上午|中午|下午|晚上|最近")
_ASKED = pattern(
    r"\bask(?:s|ed|ing)?\b|\bquestions?\b|(?<!xin )\bhỏi\b|\bhoi (?:nhung )?(?:gi|ve|ai|dieu|cau)\b"
    "|(?<!请)(?<!請)[问問](?!题|題)"
)


def is_about_speech(text: str) -> bool:
    """True if a text speaks of saying something."""
    return bool(_HAN_SPEECH.search(text)) or not SPEECH.isdisjoint(text.lower().split())


def asks_for_questions(text: str) -> bool:
    """True if a text wants to know what somebody asked."""
    return bool(_ASKED.search(text.lower()))


def has_content(words: list[str], vietnamese: bool) -> bool:
    """True if words, each in one case and Han characters one by one, say more than that somebody said something at some
    time."""
    spaced = [word for word in words if word < "\u2e80"]
    han = _HAN_TIME.sub("", _HAN_SPEECH.sub("", "".join(word for word in words if word >= "\u2e80")))
    little = ENGLISH | SPEECH | TIME | (VIETNAMESE | UNMARKED if vietnamese else VIETNAMESE)
    return any(word not in little for word in spaced) or any(char not in HAN for char in han)
