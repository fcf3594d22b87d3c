import os
import stat

from report.web.a_page import TOKEN
from sojourn import secret_files
from sojourn.report.web.tokens import NAME, TRIES, WINDOW, Doorkeeper, passing_token, token_in


def test_a_token_is_long_and_for_its_owner_alone(tmp_path):
    token = token_in(tmp_path)
    assert len(token.value) == 43
    assert (tmp_path / NAME).read_text() == f"{token.value}\n"
    assert stat.S_IMODE((tmp_path / NAME).stat().st_mode) == 0o600


def test_whoever_sees_the_file_of_a_token_reads_all_of_it(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(secret_files.os, "fsync", lambda _: seen.append((tmp_path / NAME).exists()))
    token = token_in(tmp_path)
    assert not seen[0]  # the token is on the disk before its file has this name
    assert [one.name for one in tmp_path.iterdir()] == [NAME]
    assert token.file.read_text() == f"{token.value}\n"


def test_two_folders_have_two_tokens(tmp_path):
    (tmp_path / "other").mkdir()
    assert token_in(tmp_path).value != token_in(tmp_path / "other").value


def test_a_token_that_a_killed_server_left_is_used_again(tmp_path):
    assert token_in(tmp_path).value == token_in(tmp_path).value


def test_a_token_that_others_may_have_read_is_replaced(tmp_path):
    before = token_in(tmp_path).value
    os.chmod(tmp_path / NAME, 0o644)
    assert token_in(tmp_path).value != before
    assert stat.S_IMODE((tmp_path / NAME).stat().st_mode) == 0o600


def test_a_short_token_that_somebody_planted_is_replaced(tmp_path):
    (tmp_path / NAME).write_text("known\n")
    os.chmod(tmp_path / NAME, 0o600)
    assert len(token_in(tmp_path).value) == 43


def test_a_link_in_place_of_the_token_is_replaced_and_its_target_stays(tmp_path):
    target = tmp_path / "target"
    target.write_text(f"{'a' * 43}\n")
    os.chmod(target, 0o600)
    (tmp_path / NAME).symlink_to(target)
    assert token_in(tmp_path).value != "a" * 43
    assert not (tmp_path / NAME).is_symlink()
    assert target.read_text() == f"{'a' * 43}\n"


def test_a_token_does_not_show_its_value():
    assert TOKEN.value not in f"{TOKEN} {TOKEN!r}"


def test_a_passing_token_leaves_nothing_behind():
    with passing_token() as token:
        assert token.file.exists()
        assert stat.S_IMODE(token.file.parent.stat().st_mode) == 0o700
    assert not token.file.parent.exists()


def test_the_doorkeeper_answers_again_when_its_window_has_passed():
    now = [0.0]
    keeper = Doorkeeper(TOKEN, lambda: now[0])
    for _ in range(TRIES):
        assert keeper.wait() == 0.0
        assert not keeper.admits(b"wrong")
    assert keeper.wait() == WINDOW
    now[0] = WINDOW
    assert keeper.wait() == 0.0
    assert keeper.admits(TOKEN.value.encode())
