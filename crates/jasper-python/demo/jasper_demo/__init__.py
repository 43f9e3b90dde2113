"""The dictionary that `jasper demo` searches: 30,000 entries of WordNet 3.0, and their vectors."""

import pathlib

FOLDER = pathlib.Path(__file__).parent
