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


FOREIGN = {
    "pnpm": "Dự án này dùng pnpm để cài thư viện, không dùng npm.",
    "coffee": "我早上只喝不加糖的黑咖啡。",
    "garage-vi": "Chìa khóa nhà xe treo sau cánh cửa bếp.",
    "dentist": "Lịch khám răng lần tới là chiều thứ năm tuần sau.",
}
OWN = """
I take the seven o'clock train to work. | My sister lives in the house next to the school. | We meet every Monday at ten.
The project uses tabs of four spaces. | Tests of this project run on every push. | I play chess on Thursday evenings.
Use the blue folder for invoices of this project. | I like my tea with milk. | My first call of the day is with Hanoi.
The morning meeting starts with the oldest ticket. | We install the new lamps in May. | I never eat in the morning.
The office closes at six. | Packages for us are left at the front desk. | The tool box is in the cellar.
My next holiday begins on the ninth of June. | The doctor moved to another street. | I see my uncle every second week.
The next release is named after a river. | We write the release notes in English. | Nobody releases on a Friday.
Check the oven before you leave. | Before every trip I check the tyres. | The database runs on the old server.
My car is in the second row. | The garage in our street is expensive. | The kitchen door squeaks. | I lost my key once.
The key of the cellar is with the neighbour. | Where the garden ends there is a stream. | The dentist's bill was paid.
We use the small room for calls. | The team drinks too much coffee. | The appointment book is on the shelf. | I run on Sundays.
"""


@pytest.fixture(scope="module")
async def many() -> AsyncIterator[Searcher]:
    """A few notes in other languages among many in English; one of them is there in both."""
    own = {f"own{n}": text.strip() for n, text in enumerate(OWN.replace("\n", "|").split("|")) if text.strip()}
    notes = {**own, **FOREIGN, "garage-en": "The key to the garage hangs behind the kitchen door."}
    async with by_meaning(doc(key, text) for key, text in notes.items()) as searcher:
        yield searcher


@pytest.mark.parametrize(
    ("asked", "key"),
    [
        ("Do we use npm or pnpm to install libraries?", "pnpm"),
        ("What do I drink in the morning?", "coffee"),
        ("When is my next appointment with the dentist?", "dentist"),
        ("Where does the key to the car shed hang?", "garage-en"),
        ("早上喝什么？", "coffee"),
        ("Where is the key to the garage?", "garage-en"),
        ("Chìa khóa nhà xe ở đâu?", "garage-vi"),
    ],
)
async def test_a_note_in_another_language_is_found_among_many_in_ones_own(many: Searcher, asked: str, key: str) -> None:
    """The right one comes before what is only in the language of the question; of a note and its translation, the one
    in that language does."""
    found = await many.search(T, asked)
    assert found.hits[0].passage.key == key


async def test_keywords_too_reach_notes_in_another_language(many: Searcher) -> None:
    """By the plain cosine thirty-two notes in the language of the keywords are nearer."""
    found = await many.search(T, "black coffee")
    assert "coffee" in [hit.passage.key for hit in found.hits]
