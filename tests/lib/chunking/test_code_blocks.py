"""Which names a piece of code defines, read as words."""

import pytest

from kho.lib.chunking.code_blocks import defined, without_parameters


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("class HTTPServer(Base):\n    def parse_args(self):\n        pass\n", "http server, parse args"),
        ("    @cache\n    async def __aenter__(self,\n", "aenter"),
        ("func (s *Shop) OpenDoor(n int) error {\n}\n\ntype Shop struct {\n", "open door, shop"),
        ("export default async function loadURLs() {\n", "load urls"),
        ("pub(crate) fn read_line<T>(x: T) {\n    impl Trait for Type {\n", "read line, trait"),
        ("public abstract class Utf8Reader extends Reader\n{\n", "utf 8 reader"),
        ("class Shop < Base\n  def open!\n", "shop, open"),
        ("def tính_tổng(a):\n", "tính tổng"),
        ("def add(a): ...\ndef add(b): ...\ndef _(c): ...\n", "add"),
        ("# class of its own\n    type of the thing\nfunction words are left out\nmodule for tests.\n", ""),
        ("x = 1\nprint(class_of(x))\n", ""),
    ],
)
def test_definitions_are_read_as_words(source: str, names: str) -> None:
    assert defined(source) == names


def test_a_line_without_end_takes_no_time() -> None:
    assert defined("function a(" + "b," * 1_000_000) == "a"
    assert defined("func (" * 300_000) == ""


def test_a_signature_without_its_parameters() -> None:
    assert without_parameters("class Shop(Base, key=1)") == "class Shop"
    assert without_parameters("export async function load(url, {depth = 1})") == "export async function load"
    assert without_parameters("func (s *Shop) Open(n int) error") == "func (s *Shop) Open"
    assert without_parameters("template <typename T>") == "template <typename T>"
