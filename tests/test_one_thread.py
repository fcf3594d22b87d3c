"""Calls that compute on one thread of PyTorch may overlap, such as a server in a thread beside a training."""

import threading

import pytest

from sojourn.facade.surroundings import one_thread

torch = pytest.importorskip("torch")


@pytest.fixture
def three_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def test_a_call_computes_on_one_thread_and_gives_back_the_others(three_threads):
    with one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 3


def test_calls_may_overlap_in_other_threads(three_threads):
    inside, leave = threading.Event(), threading.Event()
    seen = []

    def served():
        with one_thread():
            inside.set()
            leave.wait()
            seen.append(torch.get_num_threads())
        seen.append(torch.get_num_threads())

    other = threading.Thread(target=served)
    with one_thread():
        other.start()
        inside.wait()
    assert torch.get_num_threads() == 3
    leave.set()
    other.join()
    assert seen == [1, 3]
    assert torch.get_num_threads() == 3
    later = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
    later.start()
    later.join()
    assert seen[2] == 3  # a thread that is started later has them too


def test_calls_may_be_made_within_each_other(three_threads):
    with one_thread():
        with one_thread():
            pass
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 3


def test_threads_are_given_back_after_an_error(three_threads):
    with pytest.raises(RuntimeError), one_thread():
        raise RuntimeError
    assert torch.get_num_threads() == 3
