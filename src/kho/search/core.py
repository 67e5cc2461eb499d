"""`Core`: the shared services that every slice builds on. A slice's `capability.py` gets it whole; services get the
parts that they name."""

from dataclasses import field

from kho.kernel import Background, Database, Leases
from kho.kernel.limits.quotas import Quotas, no_quotas
from kho.kernel.ports import Screen
from kho.lib.clock import Clock, system_clock
from kho.lib.dataclass import dataclass
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
    """Leases on work that one process at a time may do. All leases of this process have the same owner name."""
    model: str = ""
    """Name of the embedding model; empty if there is none."""
    clock: Clock = system_clock
    quotas: Quotas = field(default_factory=no_quotas)
    screen: Screen | None = None
    """Looks for secrets in what is stored. The registry does it for the parameters of every call; a slice that reads
    files does it for their texts."""
