"""A bar on the terminal for what takes long, imported only when it is shown."""

from __future__ import annotations

import atexit

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from narrows.report.i18n import _


class Bar:
    """A bar on stderr, which is gone when it is full (or the process ends): the answer stands alone."""

    def __init__(self, total: int, label: str | None = None) -> None:
        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
        self.progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self.task = self.progress.add_task(label or _("reading headers"), total=total)
        self.progress.start()
        # an error on the way must not leave the cursor hidden
        atexit.register(self.progress.stop)

    def to(self, done: int, total: int, label: str | None = None) -> None:
        """Move it; the last step takes it away. label: what is being done now."""
        self.progress.update(self.task, completed=done)
        if label is not None:
            self.progress.update(self.task, description=label)
        if done >= total:
            self.close()

    def close(self) -> None:
        """Take it away, wherever it stands."""
        self.progress.stop()
