"""`python -m demo FOLDER_OF_PLACES`: loads the places, and serves the page."""

import sys
import tempfile
from pathlib import Path

import uvicorn

from demo.application import demo_app
from demo.places import read_cities

PORT = 8000

if __name__ == "__main__":
    cities = read_cities(Path(sys.argv[1]))
    with tempfile.TemporaryDirectory() as folder:
        sys.stdout.write(f"Loading {len(cities):,} places, then open http://localhost:{PORT}/ …\n")
        uvicorn.run(demo_app(cities, Path(folder) / "places.db"), host="127.0.0.1", port=PORT, log_level="warning")
