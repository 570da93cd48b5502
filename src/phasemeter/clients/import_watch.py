"""Tells when certain modules have been imported, so that nothing has to be imported early."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from threading import local
from types import ModuleType

from phasemeter.core.errors import guard


class ImportWatch(MetaPathFinder):
    """Calls back after a module's first import. It finds nothing itself: the other finders do.

    Args:
        names: Full names of the modules.
        on_import: Called with a module whose code has run, on the importing thread.
    """

    def __init__(self, names: Collection[str], on_import: Callable[[ModuleType], None]) -> None:
        self._names = names
        self._on_import = on_import
        self._here = local()

    def start(self) -> None:
        """Watch imports from now on."""
        sys.meta_path.insert(0, self)

    def stop(self) -> None:
        """Watch no longer."""
        sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not self]

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return what the other finders find, with a loader that calls back."""
        if fullname not in self._names or getattr(self._here, "is_asking", False):
            return None
        self._here.is_asking = True  # another finder may ask all finders in turn
        try:
            spec = self._others_find(fullname, path, target)
        finally:
            self._here.is_asking = False
        if spec is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _TellingLoader(spec.loader, self._on_import)
        return spec

    def _others_find(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> ModuleSpec | None:
        for finder in list(sys.meta_path):
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec = None if find is None else find(fullname, path, target)
            if isinstance(spec, ModuleSpec):
                return spec
        return None


class _TellingLoader(Loader):
    """A module's own loader, and a call when it has done its work."""

    def __init__(self, inner: object, on_import: Callable[[ModuleType], None]) -> None:
        self._inner = inner
        self._on_import = on_import

    def __getattr__(self, name: str) -> object:
        if name == "_inner":
            raise AttributeError(name)
        return getattr(self._inner, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Make the module as its own loader does."""
        spec.loader = self._inner  # type: ignore[assignment]
        try:
            make = getattr(self._inner, "create_module", None)
            return None if make is None else make(spec)
        finally:
            spec.loader = self

    def exec_module(self, module: ModuleType) -> None:
        """Run the module's code under its own loader, then call."""
        if module.__spec__ is not None and module.__spec__.loader is self:
            module.__spec__.loader = self._inner  # type: ignore[assignment]
        if module.__loader__ is self:
            module.__loader__ = self._inner  # type: ignore[assignment]
        self._inner.exec_module(module)  # type: ignore[attr-defined]
        with guard("noticing an import"):
            self._on_import(module)
