"""The contract's errors: a JSON-RPC code per category, and for each error guidance on what to do next. A class's
docstring is the default message that callers see."""

from collections.abc import Callable, Sequence

from kho.kernel import Hint, KhoError, Op, Problem
from kho.kernel.errors import about


class ResearchError(KhoError):
    """The operation failed."""

    rpc = -32000
    status = 500


class SystemError_(ResearchError):
    """The operation could not be carried out."""

    code = "SYSTEM_ERROR"


class ConfigurationError(ResearchError):
    """The set-up does not fit the request."""

    code = "CONFIGURATION_ERROR"
    rpc = -32001
    status = 400
    guidance = "Check the settings of the section 'research'."


class InvalidProjectRequest(ConfigurationError):
    """The parameters are not valid."""

    code = "INVALID_PROJECT_REQUEST"
    guidance = "Correct the parameter that the message names and call again."


class UnknownProject(ConfigurationError):
    """There is no project of that name."""

    code = "PROJECT_NOT_FOUND"
    status = 404
    guidance = Hint("See what there is with ", Op("manage_projects", action="list"), ".")


class ProjectExists(ConfigurationError):
    """There is a project of that name already."""

    code = "PROJECT_EXISTS"
    status = 409
    guidance = "Use it as it is, or choose another name."


class CollectionError(ResearchError):
    """The collection cannot be used like this."""

    code = "COLLECTION_ERROR"
    rpc = -32002
    status = 400
    guidance = Hint("See what there is with ", Op("manage_collections", action="list"), ".")


class InvalidCollectionRequest(CollectionError):
    """The parameters are not valid."""

    code = "INVALID_COLLECTION_REQUEST"
    guidance = "Correct the parameter that the message names and call again."


class UnknownCollection(CollectionError):
    """There is no collection of that name."""

    code = "COLLECTION_NOT_FOUND"
    status = 404


class CollectionExists(CollectionError):
    """There is a collection of that name already."""

    code = "COLLECTION_EXISTS"
    status = 409
    guidance = "Use it as it is, or choose another name."


class CollectionNotEmpty(CollectionError):
    """The collection is not empty."""

    code = "COLLECTION_NOT_EMPTY"
    status = 409
    confirmable = True


class DocumentError(ResearchError):
    """The document cannot be used."""

    code = "DOCUMENT_ERROR"
    rpc = -32003
    status = 400
    guidance = "Correct what the message names and call again."


class InvalidDocumentRequest(DocumentError):
    """The parameters are not valid."""

    code = "INVALID_DOCUMENT_REQUEST"
    guidance = "Correct the parameter that the message names and call again."


class PathRefused(DocumentError):
    """The path lies outside of the folders that may be read."""

    code = "PATH_REFUSED"
    status = 403
    guidance = Hint(
        "Name a path below an allowed folder (setting research.roots), or send the text with ",
        Op("augment_knowledge"),
        ".",
    )


class FileNotFound(DocumentError):
    """There is no such file or folder."""

    code = "FILE_NOT_FOUND"
    status = 404
    guidance = "Check the path; a relative one begins at the working directory."


class WrongKind(DocumentError):
    """The path is a folder where a file is meant, or a file where a folder is."""

    code = "WRONG_KIND"


class Unreadable(DocumentError):
    """The file cannot be read as text."""

    code = "UNREADABLE"
    status = 422
    guidance = "Save it as text, Markdown, HTML, PDF or DOCX and try again."


class DocumentNotFound(DocumentError):
    """There is no such document."""

    code = "DOCUMENT_NOT_FOUND"
    status = 404
    guidance = Hint(
        "'kho kb list-documents' lists them all, and each result of ",
        Op("query_knowledge_base"),
        " names its document_id.",
    )


class AmbiguousDocument(DocumentError):
    """Several documents answer to that name."""

    code = "AMBIGUOUS_DOCUMENT"
    status = 409
    guidance = "Call again with the id of the one that you mean."


class DocumentExists(DocumentError):
    """The same document is there already."""

    code = "DOCUMENT_EXISTS"
    status = 409
    guidance = "Remove one of the two first."


class DocumentChanged(DocumentError):
    """Some of the documents changed meanwhile. Nothing was done."""

    code = "DOCUMENT_CHANGED"
    status = 409
    guidance = "Call again."


class JobNotFound(DocumentError):
    """There is no such job."""

    code = "JOB_NOT_FOUND"
    status = 404
    guidance = Hint("See the newest jobs with ", Op("ingest_status", limit=20), ".")


class QueryError(ResearchError):
    """The query could not be answered."""

    code = "QUERY_ERROR"
    rpc = -32004
    status = 400
    guidance = "Say in a few words or a sentence what you are looking for."


class InvalidQuery(QueryError):
    """The query is not valid."""

    code = "INVALID_QUERY"
    guidance = "Correct the parameter that the message names and call again."


class QueryTimeout(QueryError):
    """The question was not answered in time."""

    code = "QUERY_TIMEOUT"
    status = 504
    guidance = "Ask again with fewer words or of fewer collections; if it stays slow, 'kho doctor' says more."


Refuse = Callable[[Sequence[Problem]], KhoError]


def refusal(kind: type[ResearchError]) -> Refuse:
    """Return a function that turns validation problems into an error of this kind; the message names the first
    problem."""

    def refuse(problems: Sequence[Problem]) -> KhoError:
        first = problems[0]
        subject = f"'{first.field}'" if first.field else "The arguments"
        return kind(
            about(subject, first.message).rstrip(".") + ".",
            guidance=QueryError.guidance if kind is InvalidQuery and first.field == "query" else None,
            problems=[problem.as_dict() for problem in problems],
        )

    return refuse


invalid_query = refusal(InvalidQuery)
invalid_collections = refusal(InvalidCollectionRequest)
invalid_projects = refusal(InvalidProjectRequest)
invalid_documents = refusal(InvalidDocumentRequest)


def missing(kind: type[ResearchError], parameter: str, action: str) -> ResearchError:
    """Return the error for a missing parameter that only some actions need."""
    return kind(
        f"'{parameter}' is required for the action '{action}'.",
        guidance=f"Call again with '{parameter}'.",
        parameter=parameter,
    )
