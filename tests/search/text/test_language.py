"""Which language a text is in."""

import pytest

from kho.search.text.language import LOOKED_AT, language


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The router has to be reset.", "en"),
        ("Để đặt lại bộ định tuyến, hãy giữ nút nhỏ.", "vi"),
        ("Để đặt lại bộ định tuyến", "vi"),  # decomposed below, too
        ("lam the nao de dat lai bo dinh tuyen", "vi"),
        ("要重置路由器，请按住小按钮。", "zh"),
        ("請按住按鈕", "zh"),
        ("用 Docker 部署 PostgreSQL 数据库", "zh"),
        ("Chạy lệnh docker compose up để khởi động PostgreSQL", "vi"),
        ("The word 数据 means data, as every student of the language learns.", "en"),
        ("Der Router muß zurückgesetzt werden", "en"),
        ("ルーターをリセットしてください", ""),
        ("라우터를 재설정하십시오", ""),
        ("Маршрутизатор нужно перезагрузить", ""),
        ("أعد تشغيل جهاز التوجيه", ""),
        ("12345 !? 😀", ""),
        ("", ""),
        ("\ud800\0", ""),
        ("x" * LOOKED_AT + "数据" * LOOKED_AT, "en"),
    ],
)
def test_language(text: str, expected: str) -> None:
    assert language(text) == expected
