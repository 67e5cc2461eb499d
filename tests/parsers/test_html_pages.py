"""HTML: what is said on a page, with its structure, and nothing of what is around it."""

import pytest

from kho.lib.chunking.chunker import chunks
from kho.parsers import ParsedFile, UnreadableFile, read

PAGE = """<!doctype html>
<html><head><title>Hướng dẫn — Kho</title><style>p { color: red }</style><script>alert("no")</script></head>
<body>
<nav><a href="/">Home</a></nav>
<div role="navigation">Menu</div>
<main>
<h1>Hướng dẫn<a class="headerlink" href="#x">¶</a></h1>
<p>Một   đoạn <b>đậm</b> với <code>kho serve</code>,<br>hai dòng.</p>
<p># not a heading</p>
<h2>Install &amp; run</h2>
<ul><li>one<li><p>two</p><ol start="3"><li>inner<li>more</ol></li></ul>
<div class="highlight-python"><pre><span>def</span> f():
    return 1 &lt; 2
</pre></div>
<blockquote><p>quoted</p></blockquote>
<table><caption>Sizes</caption><thead><tr><th>Name</th><th>Size</th></tr></thead>
<tr><td>a | b</td><td>1<br>MB</td></tr><tr><td>only</td></tr></table>
<dl><dt>kho.read(data)</dt><dd>Reads.</dd></dl>
<p hidden>hidden</p><div aria-hidden="true">unseen</div>
<noscript>turn it on</noscript><svg><text>drawing</text></svg>
</main>
<footer>© somebody</footer>
</body></html>"""


def of(page: str, name: str = "a.html") -> ParsedFile:
    return read(page.encode(), name)


def test_a_page_becomes_markdown() -> None:
    found = of(PAGE)
    assert (found.title, found.kind, found.format, found.encoding) == ("Hướng dẫn — Kho", "markdown", "html", "utf-8")
    assert found.text == (
        "# Hướng dẫn\n\nMột đoạn đậm với `kho serve`,\nhai dòng.\n\n\\# not a heading\n\n## Install & run\n\n"
        "- one\n- two\n  3. inner\n  4. more\n\n```python\ndef f():\n    return 1 < 2\n```\n\n> quoted\n\nSizes\n\n"
        "| Name | Size |\n| --- | --- |\n| a \\| b | 1 MB |\n| only |  |\n\nkho.read(data)\n\nReads.\n"
    )


def test_its_passages_know_their_headings() -> None:
    found = of(PAGE)
    assert {chunk.heading for chunk in chunks(found.text, kind=found.kind)} == {
        ("Hướng dẫn",),
        ("Hướng dẫn", "Install & run"),
    }


def test_a_table_that_lays_out_a_page_is_no_table() -> None:
    page = "<table><tr><td><table><tr><td>menu</td></tr></table></td><td><h2>Title</h2><p>Words.</p></td></tr></table>"
    assert of(page).text == "menu\n\n## Title\n\nWords.\n"


def test_a_small_main_part_does_not_hide_the_page() -> None:
    page = f"<h1>T</h1><article>Teaser</article><p>{'Words of the page. ' * 20}</p>"
    assert "Words of the page." in of(page).text


def test_the_declared_charset_of_a_page() -> None:
    page = '<meta charset="gb2312"><h1>数据</h1><p>连接</p>'.encode("gb2312")
    found = read(page, "a.htm")
    assert (found.text, found.encoding, found.notes) == ("# 数据\n\n连接\n", "gb18030", ())


def test_a_heading_is_the_title_when_there_is_no_other_and_the_name_when_there_is_none() -> None:
    assert of("<h1>A  <i>b</i></h1>x").title == "A b"
    assert of("<p>x", "the page.html").title == "the page"


def test_a_page_of_scripts_has_no_text() -> None:
    with pytest.raises(UnreadableFile, match="no text"):
        of("<html><body><script>app()</script><div id=root></div></body></html>")


def test_addresses_and_entities_stay_what_they_are() -> None:
    bomb = '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;"><!ENTITY c SYSTEM "file:///etc/passwd">]><p>&b;&c; safe'
    text = of(bomb).text
    assert "haha" not in text
    assert "root:" not in text
    assert "safe" in text


@pytest.mark.parametrize("tag", ["div", "ul><li", "b", "blockquote", "table><tr><td", "span"])
def test_deep_nesting_ends(tag: str) -> None:
    assert "bottom" in of(f"<{tag}>" * 5_000 + "bottom").text
