"""Tokens without a tokenizer, against the real one."""

from pathlib import Path

import pytest

import kho
from kho.models.e5.tokenizer import Tokenizer
from kho.models.text import estimate_tokens

VIETNAMESE = """Kho giữ lại những gì các tác tử đã học được: tài liệu có lịch sử, kinh nghiệm sửa lỗi, và những cuộc trò
chuyện cũ. Người dùng hỏi bằng tiếng Việt có dấu hoặc không dấu, và câu trả lời luôn kèm theo nguồn để kiểm tra lại.
Khi mạng bị ngắt, mọi thứ vẫn chạy trên máy tính xách tay mà không cần khóa hay tài khoản nào."""
PLAIN = """Kho giu lai nhung gi cac tac tu da hoc duoc: tai lieu co lich su, kinh nghiem sua loi, va nhung cuoc tro
chuyen cu. Nguoi dung hoi bang tieng Viet co dau hoac khong dau, va cau tra loi luon kem theo nguon de kiem tra lai."""
CHINESE = """知识库保存智能体学到的内容:带有历史记录的文档、解决问题的经验以及过去的对话。用户可以用中文提问,
答案总是附有来源,方便核对。没有网络的时候,一切仍然可以在笔记本电脑上运行,不需要任何密钥或账户。"""
ENGLISH = """The store keeps what agents have learnt: documents with their history, lessons from mended faults, and old
conversations. Users ask in the language they like, and every answer names its sources so that it can be checked.
Without a network everything still runs on a laptop, and neither a key nor an account is needed to begin."""
CODE = (Path(kho.__file__).parent / "kernel" / "registry.py").read_text()[:3000]


@pytest.mark.parametrize(
    "text", [VIETNAMESE, PLAIN, CHINESE, ENGLISH, CODE], ids=["vi", "no marks", "zh", "en", "code"]
)
def test_prose_and_code_come_out_within_a_fifth(tokenizer: Tokenizer, text: str) -> None:
    assert estimate_tokens(text) == pytest.approx(len(tokenizer.ids(text, 10_000)), rel=0.2)


@pytest.mark.parametrize(
    "text",
    [
        "Привет, как дела? Сегодня мы говорим о погоде и о природе.",
        "مرحبا بالعالم، كيف حالك اليوم؟ نحن نتحدث عن الطقس",
        "今日はいい天気ですね。散歩に行きましょう。",
        "안녕하세요 오늘 날씨가 좋네요 산책하러 갑시다",
        "🎉🎊👩‍👩‍👧‍👦🚀 great",
        "a3f9c0e1b7d24a55f8e0c1d2b3a49586e7f8a9b0",
        "x" * 1000,
        "12345678901234567890",
    ],
)
def test_anything_else_is_of_the_right_order(tokenizer: Tokenizer, text: str) -> None:
    assert estimate_tokens(text) == pytest.approx(len(tokenizer.ids(text, 10_000)), rel=0.5)


def test_nothing_is_nothing() -> None:
    assert estimate_tokens("") == estimate_tokens(" \n\t ") == 0
