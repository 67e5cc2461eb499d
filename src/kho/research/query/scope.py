"""Determines which collections a query searches."""

from collections.abc import Sequence
from dataclasses import field, replace
from pathlib import PurePath
from typing import Literal

from kho.kernel.hints import OPEN, Hint, Op
from kho.kernel.ports import Tx
from kho.lib.dataclass import dataclass
from kho.research.errors import InvalidProjectRequest
from kho.research.library import collection_store, project_store
from kho.research.library.project_store import Project

NAMED = 5
"""Maximum collections that a note names."""

How = Literal["named", "project defaults", "project collections", "all"]


@dataclass(frozen=True, slots=True)
class Scope:
    """The collections to search, and how they were chosen."""

    ids: list[str]
    names: list[str]
    how: How
    project: str | None = None
    left_out: list[str] = field(default_factory=list[str])
    """Collections linked only to archived projects: searched only if named."""
    notes: tuple[str, ...] = ()
    """Notes for the caller on the choice."""

    @property
    def narrowed(self) -> tuple[str, ...]:
        """Ids for `SearchFilter.collections`, where empty means all. If `ids` is empty there is nothing to search."""
        return () if self.how == "all" and not self.left_out else tuple(self.ids)

    def __str__(self) -> str:
        if self.how == "named":
            return "as named"
        return (
            f"the {self.how.partition(' ')[2]} of the project '{self.project}'" if self.project else "all collections"
        )


def scope_of(
    tx: Tx, tenant: str, collections: Sequence[str] | None, project: str | None, directory: str | None
) -> Scope:
    """Return the named collections; else the project's defaults or all its collections; else all of the tenant's except
    those only archived projects have. The project is the named one, else the one whose folder contains `directory`."""
    found = None if project is None else project_store.need(tx, tenant, project)
    if collections:
        rows = [collection_store.need(tx, tenant, name) for name in collections]
        return Scope([row.id for row in rows], [row.name for row in rows], "named", found.name if found else None)
    if found is None and directory is not None:
        found = detected(tx, tenant, directory)
    if found is None:
        return _everything(tx, tenant)
    links = project_store.links(tx, tenant, [found.id])[found.id]
    defaults = [link for link in links if link.is_default]
    if not links and project is None:
        bare = Hint(_bare(found), " All others were searched instead.")
        return replace(_everything(tx, tenant), notes=(bare,))
    how: How = "project defaults" if defaults else "project collections"
    chosen, notes = defaults or links, list[str]()
    if not links:
        notes.append(Hint(_bare(found), " Nothing was searched."))
    if found.archived_at is not None:
        notes.append(f"The project '{found.name}' is archived.")
    ids = [link.collection_id for link in chosen]
    return Scope(ids, [link.name for link in chosen], how, found.name, notes=tuple(notes))


def _everything(tx: Tx, tenant: str) -> Scope:
    every = collection_store.all_ids(tx, tenant)
    aside = project_store.put_aside(tx, tenant)
    left_out = [name for id, name in every if id in aside]
    notes = ()
    if left_out:
        shown = ", ".join(f"'{name}'" for name in left_out[:NAMED]) + (" …" if len(left_out) > NAMED else "")
        notes = (f"Not searched, because only archived projects have them: {shown}. Name them to search them.",)
    kept = [(id, name) for id, name in every if id not in aside]
    return Scope([id for id, _ in kept], [name for _, name in kept], "all", left_out=left_out, notes=notes)


def _bare(project: Project) -> str:
    return Hint(
        f"The project '{project.name}' has no collections: they were deleted, or none was linked. Link one with ",
        Op("manage_projects", action="link", project_name=project.name, collections=OPEN),
        ".",
    )


def detected(tx: Tx, tenant: str, directory: str) -> Project | None:
    """Return the project whose folder is `directory` or its nearest parent."""
    here = PurePath(absolute(directory))
    folders = [str(one) for one in (here, *here.parents)]
    found = project_store.in_directories(tx, tenant, folders)
    return next((found[folder] for folder in folders if folder in found), None)


def absolute(directory: str) -> str:
    """Return the normalized absolute path without looking at the disk: the folder may be on the caller's machine."""
    path = PurePath(directory)
    if not path.is_absolute():
        raise InvalidProjectRequest("'directory' must be an absolute path.", parameter="directory")
    if ".." in path.parts:
        raise InvalidProjectRequest("'directory' must not contain '..'.", parameter="directory")
    return str(path)
