"""What progress=True shows."""

import sys
from typing import Any


class Bar:
    """The progress of one call, on standard error: a bar per stage if tqdm is installed, or else a line per stage."""

    def __init__(self) -> None:
        try:
            from tqdm.auto import tqdm
        except ImportError:
            tqdm = None
        self._tqdm: Any = tqdm
        self._bar: Any = None
        self._stage: str | None = None

    def __call__(self, stage: str, done: int, total: int) -> None:
        if stage != self._stage:
            self.close()
            self._stage = stage
            if self._tqdm is None:
                print(f"{stage}: {total:,}", file=sys.stderr)
            else:
                self._bar = self._tqdm(desc=stage, total=total, unit_scale=True)
        if self._bar is not None:
            self._bar.total = total
            self._bar.update(done - self._bar.n)

    def close(self) -> None:
        """Ends the bar."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None
