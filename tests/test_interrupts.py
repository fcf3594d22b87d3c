"""Signals that are noted while something must come to its end by itself."""

import signal

import pytest

from sojourn.interrupts import noted


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_noted_and_a_second_one_interrupts(kind):
    before = signal.getsignal(kind)
    with noted(twice=True, term=True) as stop:
        assert not stop.is_set()
        signal.raise_signal(kind)
        assert stop.is_set()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(kind)
    assert signal.getsignal(kind) is before


def test_sigterm_is_left_alone_unless_it_is_asked_for():
    before = signal.getsignal(signal.SIGTERM)
    with noted(twice=False):
        assert signal.getsignal(signal.SIGTERM) is before
