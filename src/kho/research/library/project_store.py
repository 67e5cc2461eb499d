"""The SQL of projects and their links to collections. Every statement names the tenant."""

from collections.abc import Sequence
from dataclasses import dataclass

from kho.kernel.ports import Tx
from kho.lib import sql
from kho.lib.sql import NOTHING, Table, among
from kho.research import names
from kho.research.errors import UnknownProject
from kho.research.library.collection_store import GUESSED_FROM


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
    """False if the name is taken, also by somebody who comes at the same moment."""
    return PROJECTS.insert(tx, project, conflict=NOTHING, tenant=tenant, name_key=names.key(project.name)) == 1


def find(tx: Tx, tenant: str, name: str) -> Project | None:
    row = tx.one(f"{SELECT} WHERE tenant = $1 AND name_key = $2", tenant, names.key(name))
    return PROJECTS.read(row) if row else None


def need(tx: Tx, tenant: str, name: str) -> Project:
    """The project of that name, or the error that suggests others."""
    found = find(tx, tenant, name)
    if found is not None:
        return found
    rows = tx.all(
        "SELECT name FROM research_projects WHERE tenant = $1 ORDER BY updated_at DESC LIMIT $2", tenant, GUESSED_FROM
    )
    near = names.similar(name, [row[0] for row in rows])
    create = f'create it with manage_projects(action="create", project_name="{name}")'
    guidance = (
        f"{names.did_you_mean(near)}Otherwise {create}."
        if near
        else f"{UnknownProject.guidance[:-1]}, or {create}."
        if rows
        else f"There are no projects yet: {create}."
    )
    raise UnknownProject(
        f"There is no project '{name}'.", guidance=guidance, project=name, **({"suggestions": near} if near else {})
    )


def page(tx: Tx, tenant: str, after: str, limit: int, *, archived: bool) -> list[Project]:
    """A page in the order of names."""
    alive = "" if archived else " AND archived_at IS NULL"
    rows = tx.all(
        f"{SELECT} WHERE tenant = $1 AND name_key > $2{alive} ORDER BY name_key LIMIT $3", tenant, after, limit
    )
    return PROJECTS.read_all(rows)


def counts(tx: Tx, tenant: str) -> tuple[int, int]:
    """The numbers of projects that are in use and that are archived."""
    row = tx.one("SELECT count(*), count(archived_at) FROM research_projects WHERE tenant = $1", tenant)
    every, archived = row or (0, 0)
    return every - archived, archived


def in_directories(tx: Tx, tenant: str, directories: Sequence[str]) -> dict[str, Project]:
    """The projects that are not archived and have one of these folders, by folder."""
    select = f"{SELECT} WHERE tenant = $1 AND archived_at IS NULL AND directory"
    rows = PROJECTS.read_all(among(tx, select, directories, tenant, rest=" ORDER BY id"))
    return {row.directory: row for row in rows if row.directory is not None}


def put_aside(tx: Tx, tenant: str) -> set[str]:
    """The ids of collections that belong to archived projects and to no other."""
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
    """It counts as changed, and nobody else changes it before the transaction ends."""
    sql.update(tx, "research_projects", {"updated_at": now}, tenant=tenant, id=id)


def link(tx: Tx, tenant: str, project_id: str, collection_ids: Sequence[str], *, default: bool) -> None:
    """Links that exist stay; one that becomes a default stays one."""
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
    """The collections of projects, by name."""
    rows = among(
        tx,
        "SELECT l.project_id, l.collection_id, c.name, l.is_default FROM research_project_collections AS l "
        "JOIN research_collections AS c ON c.tenant = l.tenant AND c.id = l.collection_id "
        "WHERE l.tenant = $1 AND l.project_id",
        project_ids,
        tenant,
        rest=" ORDER BY c.name_key",
    )
    found: dict[str, list[Link]] = {id: [] for id in project_ids}
    for project_id, collection_id, name, is_default in rows:
        found[project_id].append(Link(collection_id, name, bool(is_default)))
    return found


def of_collections(tx: Tx, tenant: str, collection_ids: Sequence[str]) -> dict[str, list[str]]:
    """The names of the projects that collections are linked to."""
    rows = among(
        tx,
        "SELECT l.collection_id, p.name FROM research_project_collections AS l "
        "JOIN research_projects AS p ON p.tenant = l.tenant AND p.id = l.project_id "
        "WHERE l.tenant = $1 AND l.collection_id",
        collection_ids,
        tenant,
        rest=" ORDER BY p.name_key",
    )
    found: dict[str, list[str]] = {id: [] for id in collection_ids}
    for collection_id, name in rows:
        found[collection_id].append(name)
    return found
