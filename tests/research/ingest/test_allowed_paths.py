"""Only what lies below the allowed folders is read: however it is written, linked, or swapped in between."""

import os
import socket
import tempfile
import unicodedata
from pathlib import Path
from typing import Literal

import pytest

from kho.research.errors import FileNotFound, PathRefused, Unreadable
from kho.research.ingest.allowed_paths import AllowedPaths, Roots

SECRET = "not for you"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder that is allowed, beside one that is not."""
    (tmp_path / "open" / "notes").mkdir(parents=True)
    (tmp_path / "open" / "notes" / "a.md").write_text("hello", "utf-8")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text(SECRET, "utf-8")
    return tmp_path


@pytest.fixture
def roots(place: Path) -> Roots:
    return Roots((place / "open",), home=place / "open")


def refused(roots: Roots, path: str) -> PathRefused:
    with pytest.raises(PathRefused) as refusal:
        roots.locate(path)
    assert refusal.value.guidance
    assert (refusal.value.rpc, refusal.value.status) == (-32003, 403)
    return refusal.value


# -- what may be read --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["notes/a.md", "./notes//a.md", "notes/../notes/a.md", "~/notes/a.md", "{}/notes/a.md"]
)
def test_a_path_may_be_relative_absolute_or_in_the_home(roots: Roots, place: Path, path: str) -> None:
    located = roots.locate(path.format(place / "open"))
    assert (located.path, located.folder) == (place / "open" / "notes" / "a.md", False)
    assert roots.read(located, 100) == b"hello"


@pytest.mark.parametrize("path", [".", "~", "notes/.."])
def test_the_allowed_folder_itself_may_be_named(roots: Roots, place: Path, path: str) -> None:
    located = roots.locate(path)
    assert (located.path, located.folder) == (place / "open", True)


def test_a_path_that_leaves_and_comes_back_stays_inside(roots: Roots, place: Path) -> None:
    assert roots.locate("../open/notes/a.md").path == place / "open" / "notes" / "a.md"


@pytest.mark.parametrize(("on_disk", "typed"), [("NFC", "NFD"), ("NFD", "NFC")])
def test_names_are_found_however_their_letters_are_composed(
    roots: Roots, place: Path, on_disk: Literal["NFC", "NFD"], typed: Literal["NFC", "NFD"]
) -> None:
    folder = place / "open" / unicodedata.normalize(on_disk, "Tài liệu")
    folder.mkdir()
    file = folder / unicodedata.normalize(on_disk, "Ghi chú.md")
    file.write_text("xin chào", "utf-8")
    located = roots.locate(unicodedata.normalize(typed, "Tài liệu/Ghi chú.md"))
    assert located.path == file
    assert roots.read(located, 100).decode() == "xin chào"


def test_a_link_within_the_allowed_folder_is_followed(roots: Roots, place: Path) -> None:
    (place / "open" / "link.md").symlink_to("notes/a.md")
    (place / "open" / "shortcut").symlink_to("notes")
    for path in ("link.md", "shortcut/a.md"):
        assert roots.read(roots.locate(path), 100) == b"hello"


def test_an_allowed_folder_may_itself_be_a_link(place: Path) -> None:
    (place / "alias").symlink_to("open")
    roots = Roots((place / "alias",))
    for path in ("notes/a.md", str(place / "open/notes/a.md"), str(place / "alias/notes/a.md")):
        assert roots.read(roots.locate(path), 100) == b"hello"


def test_files_that_are_not_there_are_not_found(roots: Roots) -> None:
    for path in ("nothing.md", "no/such/folder", "notes/ă.md"):
        with pytest.raises(FileNotFound) as missing:
            roots.locate(path)
        assert (missing.value.rpc, missing.value.guidance != "") == (-32003, True)


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    ["../outside/secret.txt", "notes/../../outside/secret.txt", "/etc/passwd", "..", "/", "~/../outside", "~//etc"],
)
def test_a_path_out_of_the_folders_is_refused_with_what_is_allowed(roots: Roots, place: Path, path: str) -> None:
    refusal = refused(roots, path)
    assert refusal.message == "The path leads out of the folders that may be read."
    assert str(place / "open") in refusal.guidance
    assert "KHO_RESEARCH__ROOTS" in refusal.guidance
    assert refusal.details == {"path": path}


def test_what_is_outside_is_refused_alike_whether_it_is_there_or_not(roots: Roots) -> None:
    assert refused(roots, "../outside/secret.txt").message == refused(roots, "../outside/nothing.txt").message


def test_a_neighbour_with_a_longer_name_is_outside(roots: Roots, place: Path) -> None:
    (place / "opener").mkdir()
    (place / "opener" / "a.md").touch()
    refused(roots, str(place / "opener" / "a.md"))


@pytest.mark.parametrize("link", ["last", "between", "chain", "absolute"])
def test_links_that_lead_out_are_refused(roots: Roots, place: Path, link: str) -> None:
    allowed = place / "open"
    (allowed / "last").symlink_to("../outside/secret.txt")
    (allowed / "between").symlink_to("../outside")
    (allowed / "chain").symlink_to("between")
    (allowed / "absolute").symlink_to(place / "outside" / "secret.txt")
    path = f"{link}/secret.txt" if link in ("between", "chain") else link
    assert refused(roots, path).message.startswith("A symbolic link leads out")


def test_links_that_lead_nowhere_or_in_circles_are_no_files(roots: Roots, place: Path) -> None:
    (place / "open" / "circle").symlink_to("circle")
    (place / "open" / "dangling").symlink_to("nothing")
    refused(roots, "circle")
    with pytest.raises(FileNotFound):
        roots.locate("dangling")


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("", "empty"),
        (" \t", "empty"),
        ("notes/a.md\0.txt", "NUL"),
        ("//server/share/a.md", "other machines"),
        ("\\\\server\\share\\a.md", "other machines"),
        ("file:///etc/passwd", "URL"),
        ("FILE:/etc/passwd", "URL"),
        ("https://example.org/a.md", "URL"),
        ("s3://bucket/a.md", "URL"),
        ("C:\\Users\\a.md", "drive letter"),
        ("c:/Users/a.md", "drive letter"),
        ("C:", "drive letter"),
        ("x" * 256, "too long"),
        ("đ" * 128, "too long"),
        ("x/" * 3000, "too long"),
        ("notes/\ud800.md", "Unicode"),
    ],
)
def test_what_is_no_path_of_this_machine_is_refused(roots: Roots, path: str, why: str) -> None:
    refusal = refused(roots, path)
    assert why in refusal.message
    assert "\0" not in refusal.details["path"]


@pytest.mark.parametrize("path", ["/proc/self/environ", "/proc/self/root/etc/passwd", "/sys", "/dev/zero", "/dev/fd/0"])
def test_the_system_is_not_read_even_where_everything_is_allowed(path: str) -> None:
    assert "belongs to the system" in refused(Roots((Path("/"),)), path).message


def test_a_link_into_the_system_is_refused(place: Path) -> None:
    (place / "open" / "environ").symlink_to("/proc/self/environ")
    assert "belongs to the system" in refused(Roots((Path("/"),)), str(place / "open" / "environ")).message


def test_pipes_and_sockets_are_refused_without_opening_them(roots: Roots, place: Path) -> None:
    os.mkfifo(place / "open" / "pipe")
    with tempfile.TemporaryDirectory() as short, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{short}/socket")
        assert refused(roots, "pipe").message == "It is a pipe, not a file."
        assert refused(Roots((Path(short),)), "socket").message == "It is a socket, not a file."


def test_a_file_is_no_folder(roots: Roots) -> None:
    refused(roots, "notes/a.md/b.md")


def test_with_no_folder_nothing_is_read(place: Path) -> None:
    assert refused(Roots(()), str(place / "open" / "notes" / "a.md")).message == "No folder may be read here."


def test_a_file_is_no_root(place: Path) -> None:
    refused(Roots((place / "outside" / "secret.txt",)), str(place / "outside" / "secret.txt"))


# -- Kho's own data ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["home", "home/kho.db", "alias", "alias/kho.db", "database", "home/not/yet"])
def test_kho_s_own_data_is_never_read(place: Path, path: str) -> None:
    allowed = place / "open"
    (allowed / "home").mkdir()
    (allowed / "home" / "kho.db").touch()
    (allowed / "alias").symlink_to("home")
    (allowed / "database").symlink_to("home/kho.db")
    for name in (allowed / "home", allowed / "alias"):  # the setting, too, may be a link
        roots = Roots((allowed, allowed / "home"), forbidden=(name,))
        assert refused(roots, path).message == "Kho's own data is not read."


def test_a_data_folder_that_does_not_exist_yet_is_closed_already(place: Path) -> None:
    assert "own data" in refused(Roots((place,), forbidden=(place / "later",)), "later/kho.db").message


# -- between the check and the opening ---------------------------------------------------------------------------------


def test_a_folder_that_becomes_a_link_is_not_followed(roots: Roots, place: Path) -> None:
    notes = place / "open" / "notes"
    (notes / "secret.txt").write_text("mine", "utf-8")
    located = roots.locate("notes/secret.txt")
    notes.rename(place / "open" / "moved")
    notes.symlink_to(place / "outside")
    assert located.path.read_text("utf-8") == SECRET  # by its path, it would be read
    with pytest.raises(PathRefused):
        roots.read(located, 100)


def test_a_file_that_becomes_a_link_a_pipe_or_a_folder_is_not_read(roots: Roots, place: Path) -> None:
    file = place / "open" / "notes" / "a.md"
    located = roots.locate("notes/a.md")
    file.unlink()
    file.symlink_to(place / "outside" / "secret.txt")
    with pytest.raises(PathRefused):
        roots.read(located, 100)
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(PathRefused):
        roots.read(located, 100)
    file.unlink()
    file.mkdir()
    with pytest.raises(PathRefused):
        roots.read(located, 100)
    file.rmdir()
    with pytest.raises(FileNotFound):
        roots.read(located, 100)


def test_a_folder_that_becomes_kho_s_own_is_not_read(place: Path) -> None:
    roots = Roots((place / "open",), forbidden=(place / "home",))
    located = roots.locate("notes/a.md")
    (place / "open" / "notes").rename(place / "home")
    (place / "home").rename(place / "open" / "notes")
    (place / "home").symlink_to("open/notes")
    with pytest.raises(PathRefused, match="own data"):
        roots.read(located, 100)


def test_no_descriptor_is_left_open(roots: Roots, place: Path) -> None:
    os.mkfifo(place / "open" / "notes" / "pipe")
    located = roots.locate("notes/a.md")

    def used() -> int:
        descriptor = os.open(place, os.O_RDONLY)
        os.close(descriptor)
        return descriptor

    before = used()
    roots.read(located, 100)
    for name in ("pipe", "nothing"):
        with pytest.raises((PathRefused, FileNotFound)):
            roots.read(type(located)(located.path.with_name(name), located.root, False), 100)
    assert used() == before


def test_at_most_so_many_bytes_are_read(roots: Roots) -> None:
    located = roots.locate("notes/a.md")
    assert roots.read(located, 5) == b"hello"
    with pytest.raises(Unreadable) as large:
        roots.read(located, 4)
    assert "larger than 4 bytes" in large.value.message


def test_what_the_system_closes_is_a_plain_sentence(ordinary_user: None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "closed.md"
        file.touch(mode=0)
        roots = Roots((Path(folder),))
        with pytest.raises(PathRefused) as closed:
            roots.read(roots.locate("closed.md"), 100)
    assert closed.value.message == "The system does not allow Kho to read it."


@pytest.mark.skipif(not hasattr(os, "O_PATH"), reason="needs O_PATH")
def test_the_right_to_pass_through_a_folder_is_enough(ordinary_user: None) -> None:
    with tempfile.TemporaryDirectory() as name:
        inner = Path(name) / "inner"
        inner.mkdir()
        (inner / "a.md").write_text("hello", "utf-8")
        inner.chmod(0o100)
        roots = Roots((Path(name),))
        content = roots.read(roots.locate("inner/a.md"), 100)
        inner.chmod(0o700)
    assert content == b"hello"


def test_a_nested_root_is_entered_from_the_outermost(place: Path) -> None:
    (place / "open" / "notes" / "deep").mkdir()
    (place / "open" / "notes" / "deep" / "secret.txt").write_text("mine", "utf-8")
    (place / "outside" / "deep").mkdir()
    (place / "outside" / "deep" / "secret.txt").write_text(SECRET, "utf-8")
    roots = Roots((place / "open" / "notes" / "deep", place / "open"))
    located = roots.locate("secret.txt")
    (place / "open" / "notes").rename(place / "moved")
    (place / "open" / "notes").symlink_to(place / "outside")
    with pytest.raises(PathRefused):
        roots.read(located, 100)


# -- whose roots -------------------------------------------------------------------------------------------------------


def allowed_paths(place: Path, roots: list[str | Path], shared: list[str | Path]) -> AllowedPaths:
    return AllowedPaths.of(roots, shared, kho_home=place / "kho", cwd=place / "open", home=place / "user")


def test_by_default_the_working_directory_and_the_home_are_open_to_this_machine_s_user(place: Path) -> None:
    local = allowed_paths(place, [], []).for_caller(shared=False)
    assert (local.folders, local.forbidden) == ((place / "open", place / "user"), (place / "kho",))


@pytest.mark.parametrize(
    "cwd", ["/", "/etc", "/etc/kho", "/usr", "/usr/lib/kho", "/var", "/var/lib", "..", "../.."], ids=str
)
def test_the_whole_disk_and_folders_of_the_system_are_not_open_by_default(place: Path, cwd: str) -> None:
    home = place / "user"
    folder = (home / cwd).resolve()
    local = AllowedPaths.of([], [], kho_home=place / "kho", cwd=folder, home=home).local
    assert local.folders == (home,)
    refused(local, "/etc/passwd")
    named = AllowedPaths.of([cwd], [], kho_home=place / "kho", cwd=folder, home=home).local
    assert named.folders == (folder / cwd,), "what the settings name is open"


def test_a_home_that_is_the_whole_disk_opens_nothing(place: Path) -> None:
    nothing = AllowedPaths.of([], [], kho_home=place / "kho", cwd=Path("/"), home=Path("/")).local
    assert nothing.folders == ()
    assert "KHO_RESEARCH__ROOTS" in refused(nothing, "/etc/passwd").guidance


@pytest.mark.parametrize("cwd", ["/var/lib/kho", "/app", "/usr/src/app"])
def test_folders_of_services_are_open_by_default(place: Path, cwd: str) -> None:
    assert AllowedPaths.of([], [], kho_home=place, cwd=Path(cwd), home=place / "user").local.folders[0] == Path(cwd)


def test_settings_name_folders(place: Path) -> None:
    local = allowed_paths(place, ["~/papers", "notes", "/data", "~"], []).for_caller(shared=False)
    expected = (place / "user" / "papers", place / "open" / "notes", Path("/data"), place / "user")
    assert local.folders == expected


def test_nothing_is_open_to_a_remote_credential_unless_an_admin_opened_it(place: Path) -> None:
    closed = allowed_paths(place, [place / "open"], []).for_caller(shared=True)
    refusal = refused(closed, str(place / "open" / "notes" / "a.md"))
    assert "augment_knowledge" in refusal.guidance
    assert "KHO_RESEARCH__SHARED_ROOTS" in refusal.guidance
    opened = allowed_paths(place, [], [place / "open"]).for_caller(shared=True)
    assert opened.read(opened.locate("notes/a.md"), 100) == b"hello"
    assert "'~' is not supported here." in refused(opened, "~/a.md").message


def test_a_client_s_roots_narrow_ours(place: Path) -> None:
    all_of_it = allowed_paths(place, [place / "open", place / "outside"], [])
    notes = all_of_it.for_caller(
        shared=False, stated=[(place / "open" / "notes").as_uri(), "https://x.test/", "nonsense"]
    )
    assert notes.folders == (place / "open" / "notes",)
    assert "MCP roots" in refused(notes, str(place / "outside" / "secret.txt")).guidance
    assert notes.forbidden == (place / "kho",)
    wide = all_of_it.for_caller(shared=False, stated=[place.as_uri(), "file:///"])
    assert wide.folders == (place / "open", place / "outside")
    assert all_of_it.for_caller(shared=False, stated=[]).folders == ()
    assert all_of_it.for_caller(shared=False, stated=["file://elsewhere/etc", "file:///etc"]).folders == ()


def test_a_client_s_root_may_have_letters_that_addresses_encode(place: Path) -> None:
    folder = place / "open" / "Tài liệu 100%"
    folder.mkdir()
    assert Roots((place / "open",)).narrowed([folder.as_uri()]).folders == (folder,)


def test_a_file_with_a_second_name_is_read_for_the_local_user_only(place: Path) -> None:
    """A hard link cannot be told from a file; whoever can make one in a folder that is open to others could open more."""
    (place / "open" / "also.txt").hardlink_to(place / "outside" / "secret.txt")
    opened = allowed_paths(place, [place / "open"], [place / "open"])
    local, remote = opened.for_caller(shared=False), opened.for_caller(shared=True)
    assert local.read(local.locate("also.txt"), 100) == SECRET.encode()
    for roots in (remote, remote.narrowed([(place / "open").as_uri()])):
        with pytest.raises(PathRefused, match="hard links") as told:
            roots.read(roots.locate("also.txt"), 100)
        assert told.value.guidance == "Copy the file instead of linking it."
    assert remote.read(remote.locate("notes/a.md"), 100) == b"hello"
    (place / "outside" / "secret.txt").unlink()
    assert remote.read(remote.locate("also.txt"), 100) == SECRET.encode()
