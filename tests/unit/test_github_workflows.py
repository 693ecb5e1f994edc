"""GitHub workflows call existing targets, and a release publishes the version of its tag."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").iterdir())
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

each_workflow = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)


def test_test_and_release_workflows_exist() -> None:
    assert [path.name for path in WORKFLOWS] == ["release.yml", "test.yml"]


@each_workflow
def test_every_make_target_exists(path: Path) -> None:
    called = {
        target
        for step in list_steps(path)
        for target in re.findall(r"\bmake ([^\s;&|]+)", step.get("run", ""))
    }
    assert called
    assert called - list_targets() == set()


@each_workflow
def test_every_action_is_pinned_to_a_commit(path: Path) -> None:
    uses = re.findall(r"\buses: (.+)", path.read_text())
    assert uses
    outside = [each for each in uses if not each.startswith("./.github/workflows/")]
    pinned = re.compile(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
    assert [each for each in outside if not pinned.fullmatch(each)] == []
    inside = [each.removeprefix("./") for each in uses if each not in outside]
    assert [each for each in inside if not (ROOT / each).is_file()] == []


@each_workflow
def test_every_job_has_a_runner_and_a_timeout(path: Path) -> None:
    jobs = read(path)["jobs"]
    for name, job in jobs.items():
        assert job.get("needs", name) in jobs, name
        assert "uses" in job or {"runs-on", "timeout-minutes", "steps"} <= set(job), name
        for step in job.get("steps", []):
            assert ("uses" in step) != ("run" in step), (name, step)


def test_only_the_publishing_job_has_write_permissions() -> None:
    beyond = {}
    for path in WORKFLOWS:
        workflow = read(path)
        assert workflow["permissions"] == {"contents": "read"}
        for name, job in workflow["jobs"].items():
            if "permissions" in job:
                beyond[name] = job["permissions"]
    assert beyond == {"publish": {"contents": "read", "id-token": "write"}}


def test_every_supported_python_is_tested() -> None:
    matrix = read(GITHUB / "workflows" / "test.yml")["jobs"]["test"]["strategy"]["matrix"]
    label = "Programming Language :: Python :: 3."
    supported = [item for item in PROJECT["classifiers"] if item.startswith(label)]
    assert [f"{label}{each.removeprefix('3.')}" for each in matrix["python"]] == supported


def test_published_files_are_those_built_and_tested() -> None:
    tests = read(GITHUB / "workflows" / "test.yml")
    assert "workflow_call" in tests["on"]
    (built,) = find_steps(tests["jobs"]["wheel"], "actions/upload-artifact")
    release = read(GITHUB / "workflows" / "release.yml")
    (taken,) = find_steps(release["jobs"]["publish"], "actions/download-artifact")
    assert built["with"]["name"] == taken["with"]["name"]
    assert release["jobs"]["publish"]["needs"] == "test"
    assert release["jobs"]["test"]["needs"] == "tag"
    assert release["jobs"]["test"]["uses"] == "./.github/workflows/test.yml"


@pytest.mark.parametrize(
    ("tag", "matches"),
    [(f"v{PROJECT['version']}", True), ("v0.0.1", False), (PROJECT["version"], False)],
)
def test_release_is_refused_where_tag_and_version_differ(tag: str, *, matches: bool) -> None:
    job = read(GITHUB / "workflows" / "release.yml")["jobs"]["tag"]
    (step,) = [step for step in job["steps"] if "run" in step]
    done = subprocess.run(
        ["bash", "-e", "-c", step["run"]],
        cwd=ROOT,
        env=os.environ | {"GITHUB_REF_NAME": tag},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode == 0) == matches, done.stderr
    assert (done.stderr == "") == matches
    if not matches:
        assert f"tag {tag} does not match version {PROJECT['version']}" in done.stderr


@pytest.mark.parametrize(
    "path", sorted((GITHUB / "ISSUE_TEMPLATE").iterdir()), ids=lambda p: p.stem
)
def test_issue_forms_are_valid(path: Path) -> None:
    form = read(path)
    assert {"name", "description", "body"} <= set(form)
    questions = [item for item in form["body"] if item["type"] != "markdown"]
    assert questions
    for item in questions:
        assert item["type"] in {"textarea", "input", "dropdown", "checkboxes"}
        assert item["attributes"]["label"]
        assert ("options" in item["attributes"]) == (item["type"] in {"dropdown", "checkboxes"})
    names = [item["id"] for item in questions]
    assert len(set(names)) == len(names)


def test_pre_commit_hooks_run_existing_programs() -> None:
    (repository,) = read(ROOT / ".pre-commit-config.yaml")["repos"]
    entries = [hook["entry"].split() for hook in repository["hooks"]]
    checked = (ROOT / "Makefile").read_text().replace("$(BIN)", ".venv/bin")
    assert repository["repo"] == "local"
    assert [entry[:2] for entry in entries if " ".join(entry[:2]) not in checked] == []


def read(path: Path) -> dict[str, Any]:
    # BaseLoader: YAML's older readers take the key `on` for true.
    content: dict[str, Any] = yaml.load(path.read_text(), Loader=yaml.BaseLoader)  # noqa: S506 - makes only texts
    return content


def list_steps(path: Path) -> list[dict[str, Any]]:
    return [step for job in read(path)["jobs"].values() for step in job.get("steps", [])]


def find_steps(job: dict[str, Any], action: str) -> list[dict[str, Any]]:
    return [step for step in job["steps"] if step.get("uses", "").startswith(f"{action}@")]


def list_targets() -> set[str]:
    lines = re.findall(r"^([\w./ -]+):(?!=)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    return {target for line in lines for target in line.split()}
