"""The journal opens what it has written, and nothing that is only a part of it."""

from shutil import rmtree

import numpy as np
import pytest

from sojourn import UnreadableFile
from sojourn.live.journal import ROW, Commit, Journal


def test_rows_without_checkpoints_are_refused_and_stay(tmp_path):
    journal = Journal(tmp_path)
    assert journal.open() is None
    journal.commit(Commit(np.zeros(3, ROW).tobytes(), {"epoch": 1}, lambda: None))
    journal.flush()
    journal.close()
    rmtree(tmp_path / "checkpoints")
    again = Journal(tmp_path)
    with pytest.raises(UnreadableFile, match=r"rows\.bin has rows, but there is no checkpoint in .*--overwrite"):
        again.open()
    again.close()
    assert (tmp_path / "rows.bin").stat().st_size == 3 * ROW.itemsize


def test_a_journal_without_rows_may_begin_again(tmp_path):
    first = Journal(tmp_path)
    first.open()
    first.close()
    again = Journal(tmp_path)
    assert again.open() is None
    again.close()
