"""What all operations of experience records share."""

from kho.experiences import errors, model
from kho.kernel.contract import Contract

EXPERIENCES = Contract(
    "experiences",
    read_scope="exp:read",
    write_scope="exp:write",
    shape=model.success,
    shape_error=model.failure,
    envelope_schema=model.envelope_schema,
    invalid=errors.invalid,
    personal="refused",
    not_sanitized=errors.not_sanitized,
)
REVIEW = frozenset({"exp:review", "admin"})
"""The scopes that approve or reject."""
SOME_RECORD = {
    "title": "React useState not updating state",
    "problem_description": "State variable not updating after setState call in React 18",
    "solution": "Use the functional form: setState(prev => prev + 1)",
    "keywords": ["react", "hooks", "state"],
}
"""The record used in all examples."""
