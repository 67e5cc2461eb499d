"""Operations on projects."""

import uuid
from collections.abc import Generator, Sequence
from contextlib import contextmanager

from kho.kernel import Call, Hint, Op, Tx, paging
from kho.kernel.hints import OPEN
from kho.lib.dataclass import dataclass
from kho.lib.markdown import counted
from kho.research import commands, errors, markdown, model, names, views
from kho.research.contract import READ, RESEARCH, WRITE, ResearchService, simple
from kho.research.errors import CollectionError, InvalidProjectRequest, ProjectExists, UnknownProject, missing
from kho.research.library import collection_store, project_store
from kho.research.library.collection_store import Collection
from kho.research.library.project_store import Link, Project
from kho.research.model import ManageProjects, ProjectsAnswer
from kho.research.query.scope import absolute, detected


@dataclass(slots=True, kw_only=True)
class Projects(ResearchService):
    @RESEARCH.write(
        "manage_projects",
        toolset="default",
        explained=("append",),
        name="projects",
        scope=READ,
        invalid=errors.invalid_projects,
        text=markdown.projects,
        cli=commands.PROJECTS,
        example={"action": "create", "project_name": "thesis"},
    )
    @simple
    async def manage(self, params: ManageProjects, call: Call) -> ProjectsAnswer:
        """Create projects, link collections to them, set their defaults.

        Group collections into projects, so that a question goes to the collections of the work at hand; detect finds
        the project of a folder.
        """
        reads = {"list": self._list, "info": self._info, "detect": self._detect}
        if read := reads.get(params.action):
            return await self.read(call, lambda tx: read(tx, params, call))
        call.need(WRITE)
        write = {
            "create": self._create,
            "link": self._link,
            "unlink": self._unlink,
            "set-defaults": self._set_defaults,
            "archive": self._archive,
            "unarchive": self._archive,
        }[params.action]
        return await call.commit(self.db, lambda tx: write(tx, params, call))

    def _create(self, tx: Tx, params: ManageProjects, call: Call) -> ProjectsAnswer:
        name, now = _needed(params), self.clock()
        directory = None if params.directory is None else absolute(params.directory)
        project = Project(str(uuid.uuid4()), name, params.description or "", directory, None, now, now)
        linked = _collections(tx, call.tenant, params.collections or [])
        _need_free(tx, call.tenant, directory)
        if not project_store.create(tx, call.tenant, project):
            raise ProjectExists(
                f"There is a project '{name}' already.",
                guidance=Hint(
                    "Use it (",
                    Op("manage_projects", action="info", project_name=name),
                    " shows it), or choose another name. Upper and lower case are the same name.",
                ),
            )
        project_store.link(tx, call.tenant, project.id, [row.id for row in linked], default=params.default)
        call.audit(tx, project.id, at=now, action="create", name=name)
        return _answer(tx, call.tenant, project, params.action, f"Created the project '{name}'.")

    def _link(self, tx: Tx, params: ManageProjects, call: Call) -> ProjectsAnswer:
        name, wanted = _needed(params), _needed_collections(params)
        project = self._changing(tx, call.tenant, name)
        rows = _collections(tx, call.tenant, wanted)
        with self._audited(tx, call, project, params.action):
            project_store.link(tx, call.tenant, project.id, [row.id for row in rows], default=params.default)
        message = f"Linked {_listed(rows)} to '{project.name}'{' as defaults' if params.default else ''}."
        return _answer(tx, call.tenant, project, params.action, message)

    def _unlink(self, tx: Tx, params: ManageProjects, call: Call) -> ProjectsAnswer:
        name, wanted = _needed(params), _needed_collections(params)
        project = self._changing(tx, call.tenant, name)
        rows = [collection_store.need(tx, call.tenant, one) for one in wanted]
        _need_linked(rows, project_store.links(tx, call.tenant, [project.id])[project.id], project)
        with self._audited(tx, call, project, params.action):
            project_store.unlink(tx, call.tenant, project.id, [row.id for row in rows])
        message = f"Unlinked {_listed(rows)} from '{project.name}'. The collections themselves stay."
        return _answer(tx, call.tenant, project, params.action, message)

    def _set_defaults(self, tx: Tx, params: ManageProjects, call: Call) -> ProjectsAnswer:
        name = _needed(params)
        if params.clear and params.append:
            raise InvalidProjectRequest("'append' and 'clear' exclude each other.", parameter="clear")
        if params.clear and params.collections:
            raise InvalidProjectRequest("'clear' takes no 'collections': it removes all defaults.", parameter="clear")
        wanted = [] if params.clear else _needed_collections(params)
        project = self._changing(tx, call.tenant, name)
        rows = _collections(tx, call.tenant, wanted)
        with self._audited(tx, call, project, params.action):
            if not params.append:
                project_store.clear_defaults(tx, call.tenant, project.id)
            project_store.link(tx, call.tenant, project.id, [row.id for row in rows], default=True)
        message = f"'{project.name}' has no defaults now." if params.clear else f"Set the defaults of '{project.name}'."
        return _answer(tx, call.tenant, project, params.action, message)

    def _list(self, tx: Tx, params: ManageProjects, call: Call) -> ProjectsAnswer:
        [after] = views.place(params.cursor, InvalidProjectRequest, str) or ("",)
        rows = project_store.page(tx, call.tenant, after, params.limit + 1, archived=params.include_archived)
        shown, more = paging.cut(rows, params.limit, lambda last: [names.key(last.name)])
        links = project_store.links(tx, call.tenant, [row.id for row in shown])
        message = f"{counted(len(shown), 'project')} shown." if shown else "There are no projects."
        if not shown and not after:
            create = Op("manage_projects", action="create", project_name=OPEN)
            message = Hint(message, " Create one with ", create, ".")
        return ProjectsAnswer(
            action=params.action,
            message=message,
            projects=[_shown(row, links[row.id]) for row in shown],
            next_cursor=more,
        )

    def _info(self, tx: Tx, params: ManageProjects, call: Call) -> ProjectsAnswer:
        project = project_store.need(tx, call.tenant, _needed(params))
        count = len(project_store.links(tx, call.tenant, [project.id])[project.id])
        message = f"'{project.name}' has {counted(count, 'collection')}."
        return _answer(tx, call.tenant, project, params.action, message)

    def _archive(self, tx: Tx, params: ManageProjects, call: Call) -> ProjectsAnswer:
        archive, now = params.action == "archive", self.clock()
        project = self._changing(tx, call.tenant, _needed(params))
        if not archive and project.archived_at is not None:
            _need_free(tx, call.tenant, project.directory)
        project_store.set_archived(tx, call.tenant, project.id, now if archive else None, now)
        if archive != (project.archived_at is not None):
            call.audit(tx, project.id, at=now, action=params.action, name=project.name)
        told = "Archived" if archive else "Brought back"
        return _answer(tx, call.tenant, project, params.action, f"{told} '{project.name}'. Its collections stay.")

    def _detect(self, tx: Tx, params: ManageProjects, call: Call) -> ProjectsAnswer:
        if params.directory is None:
            raise missing(InvalidProjectRequest, "directory", params.action)
        project = detected(tx, call.tenant, params.directory)
        if project is None:
            raise UnknownProject(
                "No project has this folder, nor one above it.",
                guidance=Hint(
                    "Create one with ",
                    Op("manage_projects", action="create", project_name=OPEN, directory=OPEN),
                    ".",
                ),
                directory=params.directory,
            )
        message = f"This folder belongs to the project '{project.name}'."
        return _answer(tx, call.tenant, project, params.action, message)

    @contextmanager
    def _audited(self, tx: Tx, call: Call, project: Project, action: str) -> Generator[None, None, None]:
        """Write an audit event if the project's links differ afterwards."""

        def links() -> dict[str, bool]:
            found = project_store.links(tx, call.tenant, [project.id])[project.id]
            return {link.name: link.is_default for link in found}

        before = links()
        yield
        if links() != before:
            call.audit(tx, project.id, at=self.clock(), action=action, name=project.name, before=before)

    def _changing(self, tx: Tx, tenant: str, name: str) -> Project:
        """Return the project, locked until the transaction ends."""
        project = project_store.need(tx, tenant, name)
        project_store.touch(tx, tenant, project.id, self.clock())
        return project


def _needed(params: ManageProjects) -> str:
    if params.project_name is None:
        raise missing(InvalidProjectRequest, "project_name", params.action)
    return params.project_name


def _needed_collections(params: ManageProjects) -> list[str]:
    if not params.collections:
        raise missing(InvalidProjectRequest, "collections", params.action)
    return params.collections


def _collections(tx: Tx, tenant: str, wanted: Sequence[str]) -> list[Collection]:
    """Return the collections of these names, locked so that nobody deletes them before the transaction ends."""
    rows = [collection_store.need(tx, tenant, name) for name in wanted]
    collection_store.lock(tx, tenant, [row.id for row in rows])
    return rows


def _need_free(tx: Tx, tenant: str, directory: str | None) -> None:
    if directory is None:
        return
    holder = project_store.in_directories(tx, tenant, [directory]).get(directory)
    if holder is not None:
        raise ProjectExists(
            f"The folder belongs to the project '{holder.name}' already.",
            guidance="Use that project, archive it, or name another folder.",
            directory=directory,
        )


def _need_linked(rows: Sequence[Collection], links: Sequence[Link], project: Project) -> None:
    linked = {link.collection_id for link in links}
    strange = [row for row in rows if row.id not in linked]
    if strange:
        there = ", ".join(f"'{link.name}'" for link in links) or "none"
        raise CollectionError(
            f"{_listed(strange)} is not linked to '{project.name}'. Nothing was changed.",
            guidance=f"Its collections are: {there}.",
        )


def _listed(rows: Sequence[Collection]) -> str:
    return ", ".join(f"'{row.name}'" for row in rows)


def _answer(tx: Tx, tenant: str, project: Project, action: str, message: str) -> ProjectsAnswer:
    """Build the answer with the project's current state."""
    now = project_store.need(tx, tenant, project.name)
    links = project_store.links(tx, tenant, [now.id])[now.id]
    return ProjectsAnswer(action=action, message=message, project=_shown(now, links))


def _shown(project: Project, links: Sequence[Link]) -> model.ProjectDetails:
    return model.ProjectDetails.of(
        project,
        collections=[link.name for link in links],
        defaults=[link.name for link in links if link.is_default],
        archived=project.archived_at is not None,
    )
