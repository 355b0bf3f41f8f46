"""What is in the wheel and in the source distribution, and that both install and work."""

from __future__ import annotations

import email
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conftest import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping

# A build uses every core, and two at once would overwrite each other's library.
pytestmark = pytest.mark.serial


def run(*command: object, cwd: Path = ROOT, env: Mapping[str, str] = os.environ) -> str:
    """What the command prints; its complaints if it fails."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def maturin(*arguments: object, out: Path, cwd: Path = ROOT, **settings: str) -> Path:
    """The one file that maturin builds; settings are environment variables."""
    command = sys.executable, "-m", "maturin", *arguments, "--out", out
    run(*command, cwd=cwd, env={**os.environ, **settings})
    (built,) = out.iterdir()
    return built


BUILD_WHEEL = "build", "--release", "--locked", "--interpreter", sys.executable


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return maturin(*BUILD_WHEEL, out=tmp_path_factory.mktemp("wheel"))


def assert_works(wheel: Path, folder: Path) -> None:
    """Install the wheel where there is no compiler, and encode with it as the SDK does."""
    environment = folder / "venv"
    venv.create(environment)
    python = environment / "bin/python"
    env = {"PATH": str(python.parent)}
    assert shutil.which("cargo", path=env["PATH"]) is None
    pip = sys.executable, "-m", "pip", "--python", python
    run(*pip, "install", "--no-deps", "--no-index", wheel, cwd=folder, env=env)
    packages = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    # The dependencies of this environment, without a download. The editable install in it stays
    # out: a `.pth` file counts only in the folder of the environment that runs.
    Path(packages, "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    assert packages in run(python, ROOT / "tests/smoke.py", cwd=folder, env=env)


def test_wheel_contains_the_package_and_its_types(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        fields = email.message_from_bytes(archive.read(metadata))
    package = ROOT / "python/agui_codec"
    kinds = "**/*.py", "*.pyi", "py.typed", "ag_ui/*.proto"
    found = (path for kind in kinds for path in package.glob(kind))
    sources = {str(path.relative_to(package)) for path in found}
    assert {"__init__.py", "_native.pyi", "py.typed", "ag_ui/events.proto"} <= sources
    extension = "_native" + sysconfig.get_config_var("EXT_SUFFIX")
    packed = [name for name in names if ".dist-info/" not in name]
    assert sorted(packed) == sorted(f"agui_codec/{name}" for name in {*sources, extension})
    assert "ag-ui-protocol>=1.0,<2" in fields.get_all("Requires-Dist", [])
    assert fields["Requires-Python"] == ">=3.10"


def test_wheel_works_without_a_compiler(wheel: Path, tmp_path: Path) -> None:
    assert_works(wheel, tmp_path)


def test_sdist_builds_from_its_own_contents(tmp_path: Path) -> None:
    with tarfile.open(maturin("sdist", out=tmp_path / "sdist")) as archive:
        archive.extractall(tmp_path / "source", filter="data")
    (source,) = (tmp_path / "source").iterdir()
    # A target folder of its own: cargo tells files apart by their path within the package and
    # their time, and would take what it built from the repository for this. Unoptimised, since
    # the contents are in question and not the speed.
    wheel = maturin(
        *BUILD_WHEEL,
        out=tmp_path / "wheel",
        cwd=source,
        CARGO_TARGET_DIR=str(tmp_path / "target"),
        CARGO_PROFILE_RELEASE_LTO="off",
        CARGO_PROFILE_RELEASE_OPT_LEVEL="0",
    )
    assert_works(wheel, tmp_path)


def test_an_sdk_that_is_too_old_is_named() -> None:
    script = """
import importlib.metadata, ag_ui.core.events
type.__delattr__(ag_ui.core.events.ConfiguredBaseModel, "_omit_fields_without_value")
importlib.metadata.version = lambda name: {"ag-ui-protocol": "0.1.15"}[name]
try:
    import agui_codec
except ImportError as error:
    assert isinstance(error.__cause__, KeyError)
    print(error)
"""
    needed = next(
        line.split('"')[1].removeprefix("ag-ui-protocol")
        for line in (ROOT / "pyproject.toml").read_text("utf-8").splitlines()
        if line.startswith("dependencies")
    )
    assert run(sys.executable, "-c", script).strip() == (
        f"agui_codec needs ag-ui-protocol {needed}, and cannot read the classes of version 0.1.15, "
        "which is installed"
    )


def test_importing_the_package_loads_little_more_than_the_sdk() -> None:
    code = (
        "import sys, ag_ui.core; before = set(sys.modules); import agui_codec; "
        "print({name.partition('.')[0] for name in set(sys.modules) - before})"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert eval(run.stdout) == {"agui_codec", "ag_ui"}


def test_what_is_imported_on_first_use() -> None:
    code = (
        "import agui_codec; assert 'SQLiteStore' in dir(agui_codec); "
        "from agui_codec import *; print(EventHistory.__module__, hasattr(agui_codec, 'nope'))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "agui_codec.history.history False\n"
