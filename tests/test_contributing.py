"""What a contributor is told and what checks a contribution: the guide, the hooks, the workflow, the templates."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
GUIDE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
WORKFLOW = (ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8")
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
PULL_REQUEST = (ROOT / ".github" / "PULL_REQUEST_TEMPLATE.md").read_text("utf-8")


def recipe(target: str) -> list[str]:
    """The commands of a target of the Makefile, as a shell sees them."""
    lines = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    assert lines is not None
    return lines[1].replace("$(BIN)", ".venv/bin").strip().replace("\t", "").split("\n")


def steps() -> list[dict]:
    return yaml.safe_load(WORKFLOW)["jobs"]["two-commands"]["steps"]


@pytest.mark.parametrize("text", [GUIDE, PULL_REQUEST], ids=["guide", "pull request"])
def test_what_is_named_exists(text):
    for named in re.findall(r"`make (?:\w+=\S+ )?([a-z-]+)`|^make ([a-z-]+) ", text, re.MULTILINE):
        assert recipe("".join(named))
    named = {*re.findall(r"\]\(([^)#]+)\)", text), *re.findall(r"((?:src|docs|tests)/[\w/.]+)", text)}
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_the_guide_is_short_and_the_readme_links_to_it():
    lines = GUIDE.splitlines()
    assert len(lines) <= 100
    assert max(map(len, lines)) <= 100
    assert "(CONTRIBUTING.md)" in (ROOT / "README.md").read_text("utf-8")


def test_the_hooks_are_local_and_run_what_make_check_runs():
    (repo,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"]
    assert repo["repo"] == "local"
    assert [hook["entry"] for hook in repo["hooks"]] == recipe("check")
    for hook in repo["hooks"]:  # over the whole tree, with what is installed
        assert (hook["language"], hook["pass_filenames"]) == ("system", False)
    assert len({hook["id"] for hook in repo["hooks"]}) == len(repo["hooks"])


def test_the_workflow_runs_the_two_commands_and_builds_the_documentation_on_both_pythons():
    assert [step["run"] for step in steps() if "run" in step] == ["make demo", "make test", "make docs"]
    job = yaml.safe_load(WORKFLOW)["jobs"]["two-commands"]
    assert job["strategy"]["matrix"] == {"python": ["3.11", "3.12"]}  # words: 3.10 as a number would be 3.1


def test_the_workflow_needs_no_secret_and_no_stranger():
    used = [step["uses"] for step in steps() if "uses" in step]
    assert len(used) == 2
    assert all(re.fullmatch(r"actions/(checkout|setup-python)@v\d+", action) for action in used)
    assert "secrets" not in WORKFLOW
    assert yaml.safe_load(WORKFLOW)["permissions"] == {"contents": "read"}


def test_the_workflow_keeps_packages_for_as_long_as_what_make_installs_is_the_same():
    (setup,) = (step["with"] for step in steps() if step.get("uses", "").startswith("actions/setup-python"))
    needs = re.search(r"^\$\(READY\): (.*)$", MAKEFILE, re.MULTILINE)
    assert needs is not None
    assert setup["cache"] == "pip"
    assert setup["cache-dependency-path"].split() == needs[1].split()


@pytest.mark.parametrize("form", FORMS, ids=lambda path: path.stem)
def test_an_issue_form_asks_what_it_can_show(form):
    asked = yaml.safe_load(form.read_text("utf-8"))
    if form.stem == "config":
        assert asked == {"blank_issues_enabled": True}
        return
    assert {"name", "description", "body"} <= set(asked)
    fields = asked["body"]
    assert all(field["type"] in ("textarea", "input") and field["attributes"]["label"] for field in fields)
    assert len({field["id"] for field in fields}) == len(fields)
    assert fields[0]["validations"]["required"]
