"""The tasks that a stage can mix, by the name of their section in the configuration.

A new task is a file here with one class, a section of ``TrainConfig``, and a line below.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from drt_lab.train.tasks.base import Task, TaskSetup
from drt_lab.train.tasks.cloze import ClozeTask
from drt_lab.train.tasks.needles import NeedlesTask
from drt_lab.train.tasks.passages import PassagesTask
from drt_lab.train.tasks.passkey import PasskeyTask
from drt_lab.train.tasks.questions import QuestionsTask
from drt_lab.train.tasks.reader_cloze import ReaderClozeTask
from drt_lab.train.tasks.records import RecordsTask
from drt_lab.train.tasks.stream import StreamTask
from drt_lab.train.tasks.summaries import SummariesTask

# The order is that of the shares when a task is drawn: another order draws other tasks.
TASKS: dict[str, Callable[[TaskSetup], Task[Any]]] = {
    "questions": QuestionsTask,
    "needles": NeedlesTask,
    "cloze": ClozeTask,
    "passages": PassagesTask,
    "stream": StreamTask,
    "passkey": PasskeyTask,
    "summaries": SummariesTask,
    "reader_cloze": ReaderClozeTask,
    "records": RecordsTask,
}
