"""SQL of projects and their links to collections. Every statement filters by tenant."""

from collections.abc import Sequence

from kho.kernel import Op, Tx
from kho.lib import sql
from kho.lib.dataclass import dataclass
from kho.lib.sql import NOTHING, Table, among
from kho.research import names
from kho.research.errors import UnknownProject
from kho.research.library.collection_store import guess


@dataclass(frozen=True, slots=True)
class Project:
    id: str
    name: str
    description: str
    directory: str | None
    archived_at: int | None
    created_at: int
    updated_at: int


@dataclass(frozen=True, slots=True)
class Link:
    collection_id: str
    name: str
    is_default: bool


PROJECTS = Table("research_projects", Project)
SELECT = f"SELECT {PROJECTS.columns} FROM research_projects"


def create(tx: Tx, tenant: str, project: Project) -> bool:
    """Insert a project. False if the name is taken, also by a concurrent insert."""
    return PROJECTS.insert(tx, project, conflict=NOTHING, tenant=tenant, name_key=names.key(project.name)) == 1


def find(tx: Tx, tenant: str, name: str) -> Project | None:
    return PROJECTS.find(tx, tenant=tenant, name_key=names.key(name))


def need(tx: Tx, tenant: str, name: str) -> Project:
    """Return the project of that name, or raise UnknownProject with suggestions."""
    found = find(tx, tenant, name)
    if found is None:
        there, new = Op("manage_projects", action="list"), Op("manage_projects", action="create", project_name=name)
        raise UnknownProject(f"There is no project '{name}'.", **guess(tx, tenant, "project", name, there, new))
    return found


def page(tx: Tx, tenant: str, after: str, limit: int, *, archived: bool) -> list[Project]:
    """Return a page in the order of names."""
    alive = "" if archived else " AND archived_at IS NULL"
    page = f"tenant = $1 AND name_key > $2{alive} ORDER BY name_key LIMIT $3"
    return PROJECTS.all(tx, page, tenant, after, limit)


def counts(tx: Tx, tenant: str) -> tuple[int, int]:
    """Return the number of active and of archived projects."""
    row = tx.one("SELECT count(*), count(archived_at) FROM research_projects WHERE tenant = $1", tenant)
    every, archived = row or (0, 0)
    return every - archived, archived


def in_directories(tx: Tx, tenant: str, directories: Sequence[str]) -> dict[str, Project]:
    """Return active projects whose folder is one of these, by folder."""
    select = f"{SELECT} WHERE tenant = $1 AND archived_at IS NULL AND directory"
    rows = PROJECTS.read_all(among(tx, select, directories, tenant, rest=" ORDER BY id"))
    return {row.directory: row for row in rows if row.directory is not None}


def put_aside(tx: Tx, tenant: str) -> set[str]:
    """Return ids of collections that only archived projects are linked to."""
    rows = tx.all(
        "SELECT l.collection_id FROM research_project_collections AS l "
        "JOIN research_projects AS p ON p.tenant = l.tenant AND p.id = l.project_id "
        "WHERE l.tenant = $1 GROUP BY l.collection_id HAVING count(*) = count(p.archived_at)",
        tenant,
    )
    return {row[0] for row in rows}


def set_archived(tx: Tx, tenant: str, id: str, at: int | None, now: int) -> None:
    sql.update(tx, "research_projects", {"archived_at": at, "updated_at": now}, tenant=tenant, id=id)


def touch(tx: Tx, tenant: str, id: str, now: int) -> None:
    """Set updated_at, which locks the row until the transaction ends."""
    sql.update(tx, "research_projects", {"updated_at": now}, tenant=tenant, id=id)


def link(tx: Tx, tenant: str, project_id: str, collection_ids: Sequence[str], *, default: bool) -> None:
    """Link collections. Existing links stay, and a default stays a default."""
    tx.many(
        "INSERT INTO research_project_collections (tenant, project_id, collection_id, is_default) "
        "VALUES ($1, $2, $3, $4) ON CONFLICT (tenant, project_id, collection_id) DO UPDATE "
        "SET is_default = CASE WHEN excluded.is_default = 1 THEN 1 ELSE research_project_collections.is_default END",
        [(tenant, project_id, id, int(default)) for id in collection_ids],
    )


def unlink(tx: Tx, tenant: str, project_id: str, collection_ids: Sequence[str]) -> None:
    tx.many(
        "DELETE FROM research_project_collections WHERE tenant = $1 AND project_id = $2 AND collection_id = $3",
        [(tenant, project_id, id) for id in collection_ids],
    )


def clear_defaults(tx: Tx, tenant: str, project_id: str) -> None:
    sql.update(tx, "research_project_collections", {"is_default": 0}, tenant=tenant, project_id=project_id)


def links(tx: Tx, tenant: str, project_ids: Sequence[str]) -> dict[str, list[Link]]:
    """Return the linked collections of each project, in the order of names."""
    statement = (
        "SELECT l.project_id, l.collection_id, c.name, l.is_default FROM research_project_collections AS l "
        "JOIN research_collections AS c ON c.tenant = l.tenant AND c.id = l.collection_id "
        "WHERE l.tenant = $1 AND l.project_id"
    )
    rows = among(tx, statement, project_ids, tenant, rest=" ORDER BY c.name_key")
    found: dict[str, list[Link]] = {id: [] for id in project_ids}
    for project_id, collection_id, name, is_default in rows:
        found[project_id].append(Link(collection_id, name, bool(is_default)))
    return found


def of_collections(tx: Tx, tenant: str, collection_ids: Sequence[str]) -> dict[str, list[str]]:
    """Return the names of the projects that each collection is linked to."""
    statement = (
        "SELECT l.collection_id, p.name FROM research_project_collections AS l "
        "JOIN research_projects AS p ON p.tenant = l.tenant AND p.id = l.project_id "
        "WHERE l.tenant = $1 AND l.collection_id"
    )
    rows = among(tx, statement, collection_ids, tenant, rest=" ORDER BY p.name_key")
    found: dict[str, list[str]] = {id: [] for id in collection_ids}
    for collection_id, name in rows:
        found[collection_id].append(name)
    return found
