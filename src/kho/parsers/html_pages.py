"""HTML to Markdown: keeps headings, lists, tables and code; drops scripts, styles and navigation.

Lexbor builds the tree as browsers do. The walk keeps its own stack, so nesting can be of any depth.
"""

import re
from typing import TYPE_CHECKING

from kho.parsers.clean import clean, one_line, tidy
from kho.parsers.encoding import Decoded
from kho.parsers.markdown_writer import fence, heading, item, paragraph, table
from kho.parsers.model import ParsedFile
from kho.parsers.plain import stem

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

_DROPPED = (
    "script,style,noscript,template,svg,canvas,iframe,object,nav,button,select,textarea,dialog,footer,"
    "[role=navigation],[role=search],[hidden],[aria-hidden=true],a.headerlink,a.anchor"
)
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_BLOCKS = set(
    "address article aside blockquote body caption center dd details div dl dt fieldset figcaption figure form header "
    "hgroup hr html legend li main ol p section summary table tbody td tfoot th thead tr ul".split()
)
_LANGUAGE = re.compile(r"(?:language|lang|highlight|brush|sourceCode)[-:\s]+([\w+#-]+)")
_SPACE = re.compile(r"[ \t\n\r\f\xa0]+")


def of_html(decoded: Decoded, name: str) -> ParsedFile:
    from selectolax.lexbor import LexborHTMLParser

    tree = LexborHTMLParser(clean(decoded.text))
    title = _title(tree)
    for node in tree.css(_DROPPED):
        node.decompose()
    root = _main(tree)
    text = tidy(_Walk().text(root)) if root is not None else ""
    return ParsedFile(title or stem(name), text, "markdown", "html", decoded.encoding, notes=decoded.notes)


def _title(tree: "LexborHTMLParser") -> str:
    for selector in ("head > title", "h1"):
        node = tree.css_first(selector)
        if node is not None and (title := one_line(node.text())):
            return title
    return ""


def _main(tree: "LexborHTMLParser") -> "LexborNode | None":
    """Return the element marked as main content, if it holds a fair share of the page's text; otherwise the body."""
    body = tree.body
    if body is None:
        return None
    whole = len(body.text())
    for selector in ("main", "[role=main]", "article"):
        found = tree.css(selector)
        if len(found) == 1 and len(found[0].text()) * 5 > whole:
            return found[0]
    return body


class _Walk:
    """Walks the tree and collects blocks. A block is closed when another begins; words are collected in between."""

    def __init__(self) -> None:
        self._blocks: list[str] = []
        self._words: list[str] = []
        self._lists: list[int | None] = []
        """The enclosing lists: the number of the next item, None for bullets."""
        self._item = False
        self._quotes = 0

    def text(self, root: "LexborNode") -> str:
        stack: list[tuple[LexborNode, bool]] = [(root, True)]
        while stack:
            node, enters = stack.pop()
            if not enters:
                self._leave(node.tag or "")
                continue
            if node.is_text_node:
                self._words.append(_SPACE.sub(" ", node.text_content or ""))
                continue
            if not node.is_element_node or self._whole(node):
                continue
            self._enter(node.tag or "", node)
            stack.append((node, False))
            children: list[LexborNode] = []
            child = node.first_child
            while child is not None:
                children.append(child)
                child = child.next
            stack.extend((child, True) for child in reversed(children))
        self._close()
        return "\n\n".join(self._blocks)

    def _whole(self, node: "LexborNode") -> bool:
        """Convert an element that becomes one block as a whole. True if it was one."""
        tag = node.tag or ""
        if tag in _HEADINGS:
            self._close()
            if words := one_line(node.text()):
                self._blocks.append(heading(_HEADINGS[tag], words))
        elif tag == "pre":
            self._close()
            if node.text().strip():
                self._blocks.append(fence(node.text(), _language(node)))
        elif tag == "table" and (rows := _rows(node)):
            self._close()
            caption = node.css_first("caption")
            if caption is not None and caption.text().strip():
                self._blocks.append(paragraph(one_line(caption.text(), 1000)))
            self._blocks.append(table(rows))
        else:
            return False
        return True

    def _enter(self, tag: str, node: "LexborNode") -> None:
        if tag in _BLOCKS:
            self._close()
        if tag in ("ul", "ol"):
            start = node.attributes.get("start") or "1"
            self._lists.append(None if tag == "ul" else int(start) if start.isdecimal() and len(start) < 9 else 1)
        elif tag == "li":
            self._item = True
        elif tag == "blockquote":
            self._quotes += 1
        elif tag == "br":
            self._words.append("\n")
        elif tag in ("code", "kbd", "samp", "tt"):
            self._words.append("`")

    def _leave(self, tag: str) -> None:
        if tag in _BLOCKS:
            self._close()
        if tag in ("ul", "ol"):
            self._lists.pop()
        elif tag == "blockquote":
            self._quotes -= 1
        elif tag in ("code", "kbd", "samp", "tt"):
            self._words.append("`")

    def _close(self) -> None:
        lines = ("".join(self._words)).replace("``", "").split("\n")
        words = "\n".join(line for line in (one_line(line, len(line)) for line in lines) if line)
        self._words.clear()
        if not words:
            return
        if self._lists:
            depth = min(len(self._lists), 8) - 1
            if self._item:
                number = self._lists[-1]
                self._add_item(item(words, depth, number))
                self._lists[-1] = None if number is None else number + 1
            else:
                indent = "  " * (depth + 1)
                self._blocks.append(indent + words.replace("\n", "\n" + indent))
            self._item = False
            return
        words = paragraph(words)
        self._blocks.append("> " + words.replace("\n", "\n> ") if self._quotes else words)

    def _add_item(self, text: str) -> None:
        """Append a list item without a blank line before it."""
        if self._blocks and re.match(r" *(?:-|\d+\.) ", self._blocks[-1]):
            self._blocks[-1] += "\n" + text
        else:
            self._blocks.append(text)


def _language(node: "LexborNode") -> str:
    """Return the language as highlighters mark it: in a class of the block, of the code in it, or of an element around
    it."""
    around = node.parent
    outer = around.parent if around is not None else None
    for place in (node, node.css_first("code"), around, outer):
        found = _LANGUAGE.search((place.attributes.get("class") or "") if place is not None else "")
        if found and found.group(1) not in ("default", "none", "text"):
            return found.group(1)
    return ""


def _rows(node: "LexborNode") -> list[list[str]]:
    """Return the cells of a data table; empty for a table that only lays out the page."""
    if (
        node.css_first("table table, pre, h1, h2, h3, ul, ol") is not None
        or node.attributes.get("role") == "presentation"
    ):
        return []
    rows = [[_SPACE.sub(" ", cell.text(separator=" ")).strip() for cell in _cells(line)] for line in node.css("tr")]
    rows = [cells for cells in rows if any(cells)]
    return rows if rows and max(map(len, rows)) > 1 else []


def _cells(line: "LexborNode") -> "list[LexborNode]":
    found: list[LexborNode] = []
    child = line.first_child
    while child is not None:
        if child.tag in ("td", "th"):
            found.append(child)
        child = child.next
    return found
