"""Text files that people write."""

import pytest

from elldelta.errors import FileError
from elldelta.files import read_text


def test_the_mark_of_some_editors_is_left_out(tmp_path):
    (tmp_path / "codes.txt").write_bytes(b"\xef\xbb\xbfC50\nC51\n")
    assert read_text(tmp_path / "codes.txt", "file", remedy="") == "C50\nC51\n"


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileError, match=r"There is no schema .*nothing\.toml"):
        read_text(tmp_path / "nothing.toml", "schema", remedy="Give another one.")


def test_something_that_is_no_text_is_refused_with_the_way_out_and_without_its_content(tmp_path):
    with pytest.raises(FileError, match="Is a directory"):
        read_text(tmp_path, "file", remedy="")
    path = tmp_path / "thing"
    path.write_bytes(b"canary \xff\xfe")
    with pytest.raises(FileError, match="cannot be read as text") as caught:
        read_text(path, "file", remedy="Give a file in UTF-8.")
    assert caught.value.remedy == "Give a file in UTF-8."
    assert "canary" not in str(caught.value)
