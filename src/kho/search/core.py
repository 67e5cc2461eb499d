"""What every slice stands on, handed whole to its `capability.py`; services get the parts that they name."""

from dataclasses import dataclass

from kho.kernel.background import Background
from kho.kernel.ports import Database, Leases
from kho.lib.clock import Clock, system_clock
from kho.search.indexing.embedding_queue import EmbeddingQueue
from kho.search.indexing.index import Index
from kho.search.query.searcher import Searcher


@dataclass(frozen=True, slots=True)
class Core:
    db: Database
    index: Index
    searcher: Searcher
    background: Background
    embedding_queue: EmbeddingQueue | None
    """None for keyword search only."""
    leases: Leases
    """Work that one process at a time does. All of this process's are held in one name."""
    model: str = ""
    """The embedding model's name; empty where there is none."""
    clock: Clock = system_clock
