"""The kernel: what slices, doors and libraries share. The names that most of them use are imported from here."""
# ruff: noqa: F401
# pyright: reportUnusedImport=false

from kho.kernel.audit import AuditEvent, AuditLogPage
from kho.kernel.background import Background
from kho.kernel.call import Call, Principal
from kho.kernel.capability import Announcements, Capability, Changes, Prompt, Resource, ResourceContent, Transfer
from kho.kernel.command import Command
from kho.kernel.contract import Contract
from kho.kernel.errors import (
    Conflict,
    DatabaseError,
    Forbidden,
    InvalidParams,
    KhoError,
    NotFound,
    Timeout,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    Unconfirmed,
    UniqueViolation,
)
from kho.kernel.hints import Arg, Hint, Op
from kho.kernel.hub import Hub
from kho.kernel.operation import Operation
from kho.kernel.params import Cursor, ForeignId, Id, Moment, Params, Reason, Result, Strings, Time, Whole
from kho.kernel.ports import Database, Embedder, Lease, Leases, Llm, PassageRef, SearchFilter, Tx, Vectors, Words
from kho.kernel.registry import Registry
from kho.kernel.searchable import FoundPassage, Item, Searchable
from kho.kernel.section import Section
from kho.kernel.toolset import Instructions
from kho.kernel.transfer import ExportedLines, Line
from kho.kernel.validation import Problem
from kho.kernel.vocabulary import split_passage
from kho.kernel.web import Channel, ChannelClosed, Page, Served, Socket, Stream, WebReply, WebRequest
