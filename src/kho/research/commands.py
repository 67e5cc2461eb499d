"""CLI commands of the contract: how each action of each operation is typed."""

from kho.kernel.command import Command

_COLLECTION = {"collection_name": "name", "collection_type": "type", "project_name": "project"}
_PROJECT = {"project_name": "name"}

QUERY = (
    Command(
        "query",
        ("query",),
        sentence=True,
        here="directory",
        shows=(
            "collections",
            "top_k",
            "document_context",
            "project",
            "tags",
            "neighbours",
            "explain",
            "cursor",
        ),
        summary="Search the knowledge base; in a project's folder, its collections.",
        example={"query": "how are results re-ranked", "collections": "papers,notes", "top_k": 10},
    ),
)

COLLECTIONS = (
    Command(
        "collections create",
        ("collection_name",),
        fixed={"action": "create"},
        names=_COLLECTION,
        shows=("collection_type", "project_name", "description"),
        summary="Make a collection.",
        example={"collection_name": "papers", "collection_type": "fundamental"},
        group="Collections of documents.",
    ),
    Command(
        "collections list",
        fixed={"action": "list"},
        names=_COLLECTION,
        shows=("collection_type", "project_name", "limit", "cursor"),
        reads=True,
        summary="List the collections, or those of a type or a project.",
        example={},
    ),
    Command(
        "collections info",
        ("collection_name",),
        fixed={"action": "info"},
        names=_COLLECTION,
        shows=(),
        reads=True,
        summary="Show a collection: counts, size, embedder, last change.",
        example={"collection_name": "papers"},
    ),
    Command(
        "collections rename",
        ("collection_name", "new_name"),
        fixed={"action": "rename"},
        names=_COLLECTION,
        shows=(),
        summary="Give a collection another name.",
        example={"collection_name": "papers", "new_name": "articles"},
    ),
    Command(
        "collections move-documents",
        ("collection_name", "documents"),
        fixed={"action": "move-documents"},
        names={**_COLLECTION, "target_collection": "to"},
        documents=("documents",),
        shows=("target_collection",),
        needs=("target_collection",),
        summary="Move documents (ids, paths or titles) to another collection.",
        example={"collection_name": "inbox", "documents": ["attention.pdf", "bert.pdf"], "target_collection": "papers"},
    ),
    Command(
        "collections delete",
        ("collection_name",),
        fixed={"action": "delete"},
        names=_COLLECTION,
        shows=("reason",),
        confirms=True,
        summary="Delete a collection with everything in it.",
        example={"collection_name": "papers", "confirm": True},
    ),
)

_FOLDER = ("collection", "create", "recursive", "patterns", "exclude", "prune", "force", "wait")
INGEST = (
    Command(
        "kb add-document",
        ("path",),
        names={"patterns": "pattern"},
        paths=("path",),
        follows="job_status",
        shows=_FOLDER,
        summary="Add a file to a collection, or the files of a folder.",
        example={"path": "notes/reading.md", "collection": "papers"},
        group="The knowledge base: documents and their state.",
    ),
    *(
        Command(
            f"kb {name}",
            ("path",),
            fixed={"kind": "folder"},
            names={"patterns": "pattern"},
            paths=("path",),
            follows="job_status",
            shows=_FOLDER,
            summary=summary,
            example={"path": "notes", "collection": "papers", "recursive": True, "patterns": "*.md,*.pdf"},
        )
        for name, summary in (
            ("add-folder", "Add the files of a folder; those that did not change are skipped."),
            ("ingest-folder", "The same as add-folder."),
        )
    ),
    Command(
        "watch",
        ("path",),
        names={"patterns": "pattern"},
        paths=("path",),
        follows="job_status",
        watches=True,
        fixed={"kind": "folder", "recursive": True, "prune": True},
        shows=("collection", "create", "patterns", "exclude"),
        summary="Keep a collection in sync with a folder, until it is stopped.",
        example={"path": "notes", "collection": "papers"},
    ),
)

AUGMENT = (
    Command(
        "kb add-external-result",
        ("content",),
        from_file="content",
        shows=("source", "collection", "create", "title", "tags", "author", "date", "force"),
        summary="Add a text that was found elsewhere: as an argument, from a file or from stdin.",
        example={
            "content": "BM25 ranks by the rarity of words.",
            "source": "https://example.org/bm25",
            "collection": "papers",
            "title": "BM25 in a line",
        },
    ),
)

PROJECTS = (
    Command(
        "projects create",
        ("project_name",),
        fixed={"action": "create"},
        names=_PROJECT,
        paths=("directory",),
        shows=("collections", "directory", "description", "default"),
        summary="Create a project; searches in its folder use its collections.",
        example={"project_name": "thesis", "collections": "papers", "directory": "/work/thesis"},
        group="Projects: collections that belong together.",
    ),
    *(
        Command(
            f"projects {action}",
            ("project_name", "collections"),
            fixed={"action": action},
            names=_PROJECT,
            shows=shows,
            summary=summary,
            example={"project_name": "thesis", "collections": ["papers", "notes"]},
        )
        for action, shows, summary in (
            ("link", ("default",), "Link collections to a project."),
            ("unlink", (), "Unlink collections from a project; the collections stay."),
            ("set-defaults", ("append", "clear"), "Set the collections that a project searches by default."),
        )
    ),
    Command(
        "projects list",
        fixed={"action": "list"},
        names={"include_archived": "archived"},
        shows=("include_archived", "limit", "cursor"),
        reads=True,
        summary="List the projects.",
        example={},
    ),
    *(
        Command(
            f"projects {action}",
            ("project_name",),
            fixed={"action": action},
            names=_PROJECT,
            shows=(),
            reads=action == "info",
            summary=summary,
            example={"project_name": "thesis"},
        )
        for action, summary in (
            ("info", "Show a project."),
            ("archive", "Archive a project; its collections stay."),
            ("unarchive", "Restore an archived project."),
        )
    ),
    Command(
        "projects detect",
        ("directory",),
        fixed={"action": "detect"},
        paths=("directory",),
        here="directory",
        shows=(),
        reads=True,
        summary="Show which project a folder belongs to (default: the working directory).",
        example={"directory": "/work/thesis/chapter-2"},
    ),
)
