"""A bar on the terminal while headers are read, imported only when that takes long enough to be shown."""

from __future__ import annotations

import atexit

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from narrows.report.i18n import _


class Bar:
    """A bar on stderr, which is gone when it is full (or the process ends): the answer stands alone."""

    def __init__(self, total: int) -> None:
        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
        self.progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self.task = self.progress.add_task(_("reading headers"), total=total)
        self.progress.start()
        # an error on the way must not leave the cursor hidden
        atexit.register(self.progress.stop)

    def to(self, done: int, total: int) -> None:
        """Move it; the last step takes it away."""
        self.progress.update(self.task, completed=done)
        if done >= total:
            self.progress.stop()
