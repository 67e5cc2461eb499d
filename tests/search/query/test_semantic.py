"""With the real model: across languages, without marks, and little for nonsense. A dozen texts, read once."""

from collections.abc import AsyncIterator

import pytest
from tests.search.conftest import T, by_meaning, doc
from tests.search.gibberish import gibberish
from tests.search.query.test_nonsense import LOW

from kho.search.query.searcher import Searcher

TEXTS = {
    "backup-en": "The nightly backup copies every table to the second disk and keeps seven days of history.",
    "rice-en": "Rinse the rice three times, add water up to the first knuckle, and let it steam for twenty minutes.",
    "lease-en": "The tenant may end the lease with two months' notice, given in writing to the landlord.",
    "whale-en": "Blue whales call at a pitch so low that ships a thousand kilometres away can pick it up.",
    "passport-vi": "Muốn làm hộ chiếu mới, bạn cần mang căn cước công dân và hai ảnh đến phòng xuất nhập cảnh.",
    "coffee-vi": "Cà phê sữa đá được pha bằng phin, thêm sữa đặc rồi đổ ra ly đầy đá.",
    "flood-vi": "Sau trận lũ, nhiều đoạn đường sắt bị cuốn trôi và tàu phải dừng ba ngày.",
    "battery-vi": "Pin điện thoại mau chai nếu thường xuyên sạc qua đêm ở nơi nóng.",
    "rent-zh": "房租每月五号之前支付，逾期三天以上需要付滞纳金。",
    "tea-zh": "泡绿茶的水温不要超过八十度，否则茶叶会变苦。",
    "bug-zh": "服务器内存泄漏是因为连接没有关闭，重启之后问题暂时消失。",
    "moon-zh": "月球绕地球一周大约需要二十七天，所以我们总是看到它的同一面。",
}


@pytest.fixture(scope="module")
async def searcher() -> AsyncIterator[Searcher]:
    async with by_meaning(doc(key, text) for key, text in TEXTS.items()) as searcher:
        yield searcher


@pytest.mark.parametrize(
    ("asked", "key"),
    [
        ("How long are the copies of the database kept?", "backup-en"),
        ("cách nấu cơm", "rice-en"),
        ("怎么煮米饭", "rice-en"),
        ("Khi nào phải trả tiền nhà?", "rent-zh"),
        ("what do I need for a new passport", "passport-vi"),
        ("办护照需要什么材料", "passport-vi"),
        ("ho chieu moi can gi", "passport-vi"),
        ("why does my green tea taste bitter", "tea-zh"),
        ("memory leak on the server", "bug-zh"),
        ("pin dien thoai nhanh hong", "battery-vi"),
        ("same side of the moon", "moon-zh"),
        ("鲸鱼的叫声", "whale-en"),
    ],
)
async def test_found_by_what_is_meant(searcher: Searcher, asked: str, key: str) -> None:
    found = await searcher.search(T, asked)
    assert found.hits[0].passage.key == key
    assert found.notes == ()
    assert found.hits[0].parts.meaning is not None


async def test_nonsense_finds_little_and_scores_low(searcher: Searcher) -> None:
    asked = gibberish(11)
    hits = [hits for text in asked if (hits := (await searcher.search(T, text)).hits)]
    assert len(hits) < 0.25 * len(asked)
    assert max(one[0].score for one in hits) < LOW


async def test_keyboard_mash_and_noise_find_nothing_that_scores(searcher: Searcher) -> None:
    assert (await searcher.search(T, "!!!!!!")).hits == []
    for text in (
        "asdfghjkl qwertyuiop",
        "zxcv",
        "1111111",
        "😀😀😀",
        "xxxxxxxxxxxxxxx",
        "aaaa bbbb cccc",
        "\ud800\0",
    ):
        assert all(hit.score < LOW for hit in (await searcher.search(T, text)).hits), text
