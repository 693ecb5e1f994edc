"""Write src/laneway/sync.py, the blocking API, from the asynchronous classes in laneway/library.

`python -m tools.derivation` writes the file; with --check it only reports whether it is current.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

_PACKAGE = Path(__file__).parents[1] / "src" / "laneway"
_FOLDER = _PACKAGE / "library"
RESULT = _PACKAGE / "sync.py"
_SOURCES = ("producer", "consumer", "admin", "runs", "jobs", "connection")
_ROLES = ("Producer", "Consumer", "Admin", "Run", "Job", "Connection")

_HEAD = '''"""The library for code without an event loop. A background thread runs the asynchronous calls.

Generated from the asynchronous classes by tools/derivation.py: change those, and run `make docs`.
"""

from __future__ import annotations
'''

_CONNECTION = '''
    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def open(self) -> Self:
        """Open the connection and return it; do nothing if it is open. It opens once."""
        self._portal.call(self._inner.open())
        return self

    def close(self) -> None:
        """Finish the calls that are running, and close the connection; do nothing if it is closed."""
        try:
            with suppress(BrokerClosed):
                self._portal.call(self._inner.close())
        finally:
            self._portal.close()
'''
_WRITTEN_BY_HAND = {"open", "close"}


class _Names:
    """The modules that the sources import their names from."""

    def __init__(self) -> None:
        self._modules: dict[str, str] = {}
        self.annotated: set[str] = set()
        self.needed: set[str] = set()

    def read(self, module: str, tree: ast.Module) -> None:
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                self._modules.update((alias.name, node.module) for alias in node.names)
        for item in tree.body:
            targets = (
                item.targets
                if isinstance(item, ast.Assign)
                else [item.target]
                if isinstance(item, ast.AnnAssign)
                else []
            )
            for target in targets:
                if isinstance(target, ast.Name):
                    self._modules[target.id] = f"laneway.library.{module}"

    def write(self, names: set[str]) -> list[str]:
        return [
            f"from {self._modules[name]} import {name}"
            for name in sorted(names)
            if name in self._modules and name not in _ROLES
        ]


def derive() -> str:
    names = _Names()
    names.annotated |= {"Self", "TracebackType"}
    names._modules.update({"Iterator": "collections.abc"})  # noqa: SLF001 - ours
    bodies = []
    for source in _SOURCES:
        tree = ast.parse((_FOLDER / f"{source}.py").read_text())
        names.read(source, tree)
        for item in tree.body:
            if isinstance(item, ast.ClassDef) and item.name in _ROLES:
                bodies.append(_write_class(item, names))
            elif isinstance(item, ast.FunctionDef) and item.name == "connect":
                bodies.append(_write_connect(item, names))
    imports = [
        "from contextlib import suppress",
        "from typing import TYPE_CHECKING",
        "from laneway.domain.errors import BrokerClosed",
        "from laneway.library import connection as _connection",
        "from laneway.library.portal import Portal",
        *names.write(names.needed),
        "if TYPE_CHECKING:",
        *(f"    {line}" for line in names.write(names.annotated - names.needed)),
        *(
            f"    from laneway.library.{source} import {role} as _{role}"
            for source, role in zip(_SOURCES, _ROLES, strict=True)
        ),
    ]
    return _format("\n".join([_HEAD, *imports, "", *bodies]))


def _write_class(item: ast.ClassDef, names: _Names) -> str:
    lines = [f"class {item.name}:"]
    doc = ast.get_docstring(item, clean=False)
    if doc:
        lines.append(f'    """{doc}"""\n')
    lines += [
        f"    def __init__(self, inner: _{item.name}, portal: Portal) -> None:",
        "        self._inner = inner",
        "        self._portal = portal",
    ]
    for member in item.body:
        if isinstance(member, ast.FunctionDef) and member.name == "__init__":
            lines += _write_attributes(member)
    if item.name == "Connection":
        lines.append(_CONNECTION)
    for member in item.body:
        if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef) and (
            (not member.name.startswith("_") and member.name not in _WRITTEN_BY_HAND)
            or member.name == "__aiter__"
        ):
            lines.append(_write_method(member, names))
    return "\n".join(lines) + "\n"


def _write_attributes(member: ast.FunctionDef) -> list[str]:
    """Return a property for each public attribute that the constructor sets, all of type str."""
    lines = []
    for node in ast.walk(member):
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Attribute)
            and not (name := node.targets[0].attr).startswith("_")
            and name != "target"
        ):
            lines += [
                "",
                "    @property",
                f"    def {name}(self) -> str:",
                f"        return self._inner.{name}",
            ]
    return lines


def _write_method(member: ast.FunctionDef | ast.AsyncFunctionDef, names: _Names) -> str:
    decorators = [ast.unparse(item) for item in member.decorator_list]
    answer = ast.unparse(member.returns) if member.returns else "None"
    name = member.name
    if answer == "Backend":
        return ""
    if name == "__aiter__":
        name, answer = "__iter__", answer.replace("AsyncIterator", "Iterator")
        names.annotated.add("Iterator")
    _collect(member, names)
    call = f"self._inner.{member.name}"
    if "property" not in decorators:
        call += f"({_write_arguments(member)})"
    if name == "__iter__":
        call = "self._portal.iterate(aiter(self._inner))"
    elif isinstance(member, ast.AsyncFunctionDef):
        # A call on the caller's own connection runs in the caller's thread, and blocks no other call.
        own = any(item.arg == "connection" for item in member.args.args)
        call = f"self._portal.{'call_here' if own else 'call'}({call})"
    if answer in _ROLES:
        call = f"{answer}({call}, self._portal)"
    lines = ["", *(f"    @{item}" for item in decorators)]
    lines.append(f"    def {name}({ast.unparse(member.args)}) -> {answer}:")
    doc = ast.get_docstring(member, clean=False)
    if doc:
        lines.append(f'        """{doc}"""')
    lines.append(f"        {'' if answer == 'None' else 'return '}{call}")
    return "\n".join(lines)


def _write_connect(item: ast.FunctionDef, names: _Names) -> str:
    _collect(item, names)
    doc = (ast.get_docstring(item, clean=False) or "").replace("async with", "with")
    return "\n".join(
        [
            f"def connect({ast.unparse(item.args)}) -> Connection:",
            f'    """{doc}"""',
            f"    inner = _connection.connect({_write_arguments(item)})",
            "    return Connection(inner, Portal())",
            "",
        ]
    )


def _write_arguments(member: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    arguments = member.args
    given = [item.arg for item in arguments.args if item.arg != "self"]
    if arguments.vararg:
        given.append(f"*{arguments.vararg.arg}")
    given += [f"{item.arg}={item.arg}" for item in arguments.kwonlyargs]
    return ", ".join(given)


def _collect(member: ast.FunctionDef | ast.AsyncFunctionDef, names: _Names) -> None:
    arguments = member.args
    every = [*arguments.args, *arguments.kwonlyargs]
    every += [item for item in (arguments.vararg,) if item]
    for note in [item.annotation for item in every] + [member.returns]:
        if note is not None:
            names.annotated |= {n.id for n in ast.walk(note) if isinstance(n, ast.Name)}
    for default in [*arguments.defaults, *arguments.kw_defaults]:
        if default is not None:
            names.needed |= {n.id for n in ast.walk(default) if isinstance(n, ast.Name)}


def _format(text: str) -> str:
    ruff = Path(sys.executable).with_name("ruff")
    for command in (["check", "--fix-only", "--quiet"], ["format", "--quiet"]):
        text = subprocess.run(  # noqa: S603 - our own text through the formatter of this environment
            [ruff, *command, "--stdin-filename", RESULT, "-"],
            input=text,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    return text


def main() -> int:
    text = derive()
    if "--check" not in sys.argv[1:]:
        RESULT.write_text(text)
        return 0
    if RESULT.exists() and RESULT.read_text() == text:
        return 0
    sys.stderr.write("src/laneway/sync.py is not current: run `make docs`\n")
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
