"""What belongs to no slice: keys, answers kept for repeated requests, and the record of purges."""

from collections.abc import Iterator, Sequence

from kho.kernel import api_keys
from kho.kernel.ports import Tx
from kho.kernel.upkeep.erasure import Erasure, Gone, Nameless, Rows, Whom, delete_some, distinct, holds, quoted
from kho.lib.clock import Clock
from kho.lib.dataclass import dataclass
from kho.lib.sql import Value, number

SLICE = "administration"
ENDED = "revoked_at < {before} OR expires_at < {before}"


def erasures(clock: Clock) -> list[Erasure]:
    return [Keys(clock), Answers(), Record()]


@dataclass(frozen=True, slots=True)
class Keys(Nameless):
    """Keys end and leave. The last one of all stays as a row that names nobody: without any, the hub would answer
    everybody on its machine."""

    clock: Clock
    slice: str = SLICE
    wide: bool = True
    """To tell whether it is the last one."""
    tables: Sequence[str] = ("api_keys",)

    def names(self, tx: Tx, tenant: str) -> Iterator[str]:
        yield from distinct(tx, "api_keys", "sub", tenant)

    def count(self, tx: Tx, whom: Whom) -> dict[str, int]:
        if (meant := whom.where("sub IN ({names})", ENDED)) is None:
            return {}
        condition, values = meant
        return {"api_keys": number(tx, f"SELECT count(*) FROM api_keys WHERE {condition} AND sub <> ''", *values)}

    def erase(self, tx: Tx, whom: Whom, limit: int) -> Gone:
        if (meant := whom.where("sub IN ({names})", ENDED)) is None:
            return Gone()
        condition, values = meant
        sql = f"SELECT id FROM api_keys WHERE {condition} AND sub <> '' ORDER BY id LIMIT ${len(values) + 1}"
        ids = [id for (id,) in tx.all(sql, *values, limit)]
        for id in ids:
            if len(api_keys.every(tx)) > 1:
                api_keys.delete(tx, id)
            else:
                api_keys.revoke(tx, id, self.clock())
                tx.run("UPDATE api_keys SET sub = '' WHERE tenant = $1 AND id = $2", whom.tenant, id)
        return Gone(len(ids), ids)


@dataclass(frozen=True, slots=True)
class Answers(Nameless):
    """Answers that are kept for requests that may be repeated, as far as they name somebody."""

    slice: str = SLICE
    tables: Sequence[str] = ("receipts",)

    def count(self, tx: Tx, whom: Whom) -> dict[str, int]:
        condition, values = _answers(tx, whom)
        return {"receipts": number(tx, f"SELECT count(*) FROM receipts WHERE {condition}", *values)}

    def erase(self, tx: Tx, whom: Whom, limit: int) -> Gone:
        return Gone(len(delete_some(tx, "receipts", ("request_id",), *_answers(tx, whom), limit)))

    def forget(self, tx: Tx, tenant: str, subjects: Sequence[str]) -> None:
        """Delete answers that name what is gone."""
        tx.run(
            f"DELETE FROM receipts WHERE tenant = $1 AND ({holds(tx, 'answer', len(subjects), 2)})",
            tenant,
            *quoted(subjects),
        )


@dataclass(frozen=True, slots=True)
class Record(Nameless):
    """The record itself stays; of whoever asked for a purge the name leaves like that of any author."""

    slice: str = SLICE
    tables: Sequence[str] = ("purges",)

    def names(self, tx: Tx, tenant: str) -> Iterator[str]:
        yield from _REQUESTED.names(tx, tenant)

    def count(self, tx: Tx, whom: Whom) -> dict[str, int]:
        return {} if whom.names is None else _REQUESTED.count(tx, whom)

    def erase(self, tx: Tx, whom: Whom, limit: int) -> Gone:
        return Gone() if whom.names is None else _REQUESTED.erase(tx, whom, limit)


_REQUESTED = Rows(slice=SLICE, table="purges", authors=("requested_by",))


def _answers(tx: Tx, whom: Whom) -> tuple[str, list[Value]]:
    condition, values = "tenant = $1", list[Value]([whom.tenant])
    if whom.before is not None:
        values.append(whom.before)
        condition += f" AND created_at < ${len(values)}"
    if whom.names is not None:
        condition += f" AND ({holds(tx, 'answer', len(whom.names), len(values) + 1)})"
        values += quoted(whom.names)
    return condition, values
