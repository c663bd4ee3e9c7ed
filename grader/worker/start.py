"""Starts the fork server (`python -I start.py CONTROL_FD KIND PLAN`), with its files as a package.

`start.py REQUESTS_FD preloader` starts what forks fork servers instead (preloader.py).

The folder of this file becomes the package `warpgrade_worker` without entering sys.path, so that
its modules import each other and a submission can't import the grader by accident.
"""

import importlib.util
import json
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent


def make_package(name: str, folder: Path) -> None:
    """Make a folder the package `name`, without its parent in sys.path."""
    spec = importlib.util.spec_from_file_location(
        name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None and spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules[name] = package
    spec.loader.exec_module(package)


def main() -> None:
    """Set up the package and become the fork server."""
    sys.path = [entry for entry in sys.path if Path(entry or ".").resolve() != FOLDER]
    make_package("warpgrade_worker", FOLDER)
    if sys.argv[2] == "preloader":
        from warpgrade_worker import preloader

        preloader.main(int(sys.argv[1]))
    from warpgrade_worker import fork_server

    fork_server.main(int(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]))


if __name__ == "__main__":
    main()
