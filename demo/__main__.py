"""`python -m demo FOLDER_OF_PLACES [PORT]`: loads the places, and serves the page."""

import sys
import tempfile
from pathlib import Path

import uvicorn

from demo.application import demo_app
from demo.places import read_cities


def main(folder: str, port: str = "8000") -> None:
    """Serve the demo until it is stopped."""
    cities = read_cities(Path(folder))
    with tempfile.TemporaryDirectory() as database:
        sys.stdout.write(f"Loading {len(cities):,} places. Then open http://localhost:{port}/\n")
        sys.stdout.flush()
        uvicorn.run(
            demo_app(cities, Path(database) / "places.db"), host="127.0.0.1", port=int(port), log_level="warning"
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
