"""Detects the format of a file: by its suffix, a well-known name, the first line or the first bytes."""

import re
from pathlib import PurePath

_CODE = {
    "python": "py pyi pyw pyx", "javascript": "js mjs cjs jsx", "typescript": "ts tsx mts cts", "java": "java",
    "kotlin": "kt kts", "scala": "scala sc", "groovy": "groovy gradle", "c": "c h", "cpp": "cc cpp cxx hpp hh hxx ino",
    "csharp": "cs", "fsharp": "fs fsx", "go": "go", "rust": "rs", "swift": "swift", "objective-c": "m mm",
    "ruby": "rb rake gemspec", "php": "php", "perl": "pl pm", "lua": "lua", "r": "r", "julia": "jl", "dart": "dart",
    "elixir": "ex exs", "erlang": "erl hrl", "haskell": "hs", "ocaml": "ml mli", "clojure": "clj cljs edn",
    "lisp": "lisp el scm", "zig": "zig", "nim": "nim", "d": "d", "fortran": "f90 f95 f03 f", "pascal": "pas",
    "assembly": "s asm", "sh": "sh bash zsh fish ksh", "powershell": "ps1 psm1", "batch": "bat cmd", "sql": "sql",
    "css": "css scss sass less", "vue": "vue", "svelte": "svelte", "graphql": "graphql gql", "protobuf": "proto",
    "thrift": "thrift", "terraform": "tf hcl", "cmake": "cmake", "makefile": "mk mak", "dockerfile": "dockerfile",
    "vim": "vim", "awk": "awk", "tcl": "tcl", "verilog": "v sv", "vhdl": "vhd vhdl", "cuda": "cu cuh",
    "solidity": "sol", "latex": "tex sty cls bib", "yaml": "yaml yml", "toml": "toml", "ini": "ini cfg conf properties",
    "xml": "xml xsd xsl xslt rss atom", "diff": "diff patch",
}  # fmt: skip
_DOCUMENTS = {
    "markdown": "md markdown mdown mkd mdx qmd rmd",
    "text": "txt text log org adoc asciidoc srt vtt",
    "rst": "rst rest",
    "html": "html htm xhtml",
    "pdf": "pdf",
    "docx": "docx",
    "notebook": "ipynb",
    "csv": "csv",
    "tsv": "tsv tab",
    "json": "json geojson webmanifest",
    "jsonl": "jsonl ndjson",
}
_LANGUAGES = {f".{suffix}": language for language, suffixes in _CODE.items() for suffix in suffixes.split()}
_FORMATS = {f".{suffix}": name for name, suffixes in _DOCUMENTS.items() for suffix in suffixes.split()}
_NAMES = {
    "makefile": "makefile", "gnumakefile": "makefile", "dockerfile": "dockerfile", "containerfile": "dockerfile",
    "jenkinsfile": "groovy", "vagrantfile": "ruby", "gemfile": "ruby", "rakefile": "ruby", "cmakelists.txt": "cmake",
}  # fmt: skip
_TEXTS = set(
    "readme license licence copying authors changelog changes news contributing contributors notice todo install "
    "history credits thanks maintainers version".split()
)
_SHEBANG = re.compile(rb"#![ \t]*(?:\S*/)?([\w+.-]+)(?:[ \t]+(?:-S[ \t]+)?([\w+.-]*))?")
_INTERPRETERS = {
    "python": "python", "pypy": "python", "node": "javascript", "deno": "typescript", "bun": "typescript", "sh": "sh",
    "bash": "sh", "dash": "sh", "zsh": "sh", "ksh": "sh", "fish": "sh", "perl": "perl", "ruby": "ruby", "php": "php",
    "lua": "lua", "awk": "awk", "gawk": "awk", "Rscript": "r", "tclsh": "tcl", "julia": "julia", "pwsh": "powershell",
    "make": "makefile",
}  # fmt: skip
ISOLATED = frozenset({"pdf", "docx", "html"})
"""Formats that are always parsed in the worker, whatever their size: their parsers are large, or written in C."""


def formats() -> tuple[str, ...]:
    """Return the supported suffixes, with their dot, sorted."""
    return tuple(sorted({*_LANGUAGES, *_FORMATS}))


def is_readable(name: str) -> bool:
    """True for a file name that is worth opening when a whole folder is read."""
    path = PurePath(name.lower())
    if path.suffix in _LANGUAGES or path.suffix in _FORMATS or path.name in _NAMES:
        return True
    return not path.suffix and path.name.split("-")[0] in _TEXTS


def format_of(data: bytes, name: str) -> tuple[str, str | None]:
    """Return the format, and the programming language if that is "code". Unknown formats are tried as text."""
    path = PurePath(name.lower())
    if data[:1024].lstrip().startswith(b"%PDF-"):
        return "pdf", None
    if path.name in _NAMES:
        return "code", _NAMES[path.name]
    if path.suffix in _LANGUAGES:
        return "code", _LANGUAGES[path.suffix]
    if path.suffix in _FORMATS:
        return _FORMATS[path.suffix], None
    language = _by_shebang(data)
    return ("code", language) if language else ("text", None)


def _by_shebang(data: bytes) -> str | None:
    found = _SHEBANG.match(data[:200])
    if not found:
        return None
    program, argument = (part.decode("ascii", "replace") for part in found.groups(b""))
    program = argument if program == "env" else program
    return _INTERPRETERS.get(program) or _INTERPRETERS.get(program.rstrip("0123456789."))


_SIGNATURES = (
    (b"PK\x03\x04", "a ZIP archive or an Office document"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Office document"),
    (b"\x7fELF", "a program"),
    (b"MZ\x90", "a program"),
    (b"\x89PNG\r\n", "a picture"),
    (b"\xff\xd8\xff", "a picture"),
    (b"GIF8", "a picture"),
    (b"\x1f\x8b\x08", "a compressed file"),
    (b"BZh", "a compressed file"),
    (b"\xfd7zXZ\0", "a compressed file"),
    (b"\x28\xb5\x2f\xfd", "a compressed file"),
    (b"7z\xbc\xaf", "an archive"),
    (b"Rar!\x1a", "an archive"),
    (b"SQLite format 3\0", "a database"),
    (b"ID3", "a sound"),
    (b"OggS", "a sound or a film"),
    (b"RIFF", "a sound, a film or a picture"),
)


def signature(data: bytes) -> str | None:
    """Return the kind of a binary file by its first bytes; None if it may be text."""
    for mark, meaning in _SIGNATURES:
        if data.startswith(mark) and any(byte >= 127 or byte < 9 for byte in data[:512]):
            return meaning
    return None
