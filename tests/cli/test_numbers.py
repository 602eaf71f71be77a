"""The commands that need no data: worst-case, sample-size, figures."""

import csv
import json
import math
import subprocess
import sys

import pytest

from elldelta.cli.main import execute


def run(capsys, *arguments):
    code = execute(arguments)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def run_json(capsys, *arguments):
    code, out, err = run(capsys, *arguments, "--json")
    assert err == ""
    return code, json.loads(out)


def test_worst_case_json(capsys):
    code, result = run_json(capsys, "worst-case", "--values", "50", "--ell", "30", "--releases", "2")
    assert code == 0
    assert result["diversity"] == 10
    assert [len(shown) for shown in result["example"]] == [30, 30]
    assert len(set(result["example"][0]) & set(result["example"][1])) == 10


def test_worst_case_with_different_diversities(capsys):
    code, result = run_json(capsys, "worst-case", "--values", "50", "--ell", "30,35,40")
    assert (code, result["diversity"]) == (0, 50 - 20 - 15 - 10)
    assert len(set.intersection(*map(set, result["example"]))) == result["diversity"]


def test_worst_case_for_people(capsys):
    code, out, _ = run(capsys, "worst-case", "--values", "10", "--ell", "8", "--releases", "2")
    assert code == 0
    assert "can leave as few as 6" in out
    assert "1 to 2" in out
    assert "3 to 4" in out


SETTING = ("sample-size", "--values", "50", "--quasi-identifiers", "3000", "--ell", "10")


def test_sample_size_json(capsys):
    code, result = run_json(
        capsys, *SETTING, "--marginal", "geometric:0.95", "--beta", "0.01", "--delta", "0.01"
    )
    assert code == 0
    assert result["p"] == pytest.approx(0.000341393, abs=5e-10)
    assert result["m"] == pytest.approx(292.917, abs=5e-4)
    assert result["records_exact"] == pytest.approx(36865.108, abs=5e-4)
    assert (result["records"], result["delta"], result["classes"]) == (36866, 0.01, 100)
    assert result["p"] == pytest.approx(0.01 * result["p_ell"])


def test_sample_size_solves_for_delta(capsys):
    code, result = run_json(capsys, *SETTING, "--p", "0.0002", "--records", "65606")
    assert code == 0
    assert result["delta"] <= 0.01
    assert result["delta"] == pytest.approx(0.01, rel=1e-3)


def test_sample_size_from_a_file(capsys, tmp_path):
    file = tmp_path / "marginal.txt"
    file.write_text("0.5\n0.25\n\n0.25\n")
    code, result = run_json(
        capsys, "sample-size", "--quasi-identifiers", "10", "--ell", "2", "--beta", "0.5",
        "--marginal-file", str(file),
    )  # fmt: skip
    assert code == 0
    assert result["p_ell"] == 0.25
    assert result["p"] == 0.125


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("worst-case", "--values", "50", "--ell", "51"), "1 to 50"),
        (("worst-case", "--values", "50", "--ell", "many"), "whole number"),
        (("worst-case", "--values", "50", "--ell", "5", "--releases", "0"), "1 or more"),
        (("worst-case", "--values", "50", "--ell", "5,6", "--releases", "3"), "agree"),
        (("worst-case", "--values", "50"), "--ell"),
        ((*SETTING, "--p", "0.5"), "(0, 0.02]"),
        ((*SETTING, "--p", "nan"), "(0, 0.02]"),
        ((*SETTING, "--p", "0.01", "--delta", "0"), "between 0 and 1"),
        ((*SETTING, "--p", "0.01", "--delta", "0.1", "--records", "10"), "not both"),
        ((*SETTING, "--p", "0.01", "--beta", "0.1"), "either p or beta"),
        ((*SETTING,), "--beta"),
        ((*SETTING, "--p", "0.01", "--delta", "0.1", "--records", "10"), "--records"),
        ((*SETTING, "--beta", "2"), "(0, 1]"),
        ((*SETTING, "--beta", "0"), "(0, 1]"),
        ((*SETTING, "--beta", "0.1", "--marginal", "zipf"), "geometric:RATIO"),
        ((*SETTING, "--beta", "0.1", "--marginal", "geometric:x"), "geometric:RATIO"),
        ((*SETTING, "--beta", "0.1", "--marginal", "geometric:2"), "between 0 and 1"),
        ((*SETTING, "--beta", "0.1", "--marginal-file", "missing.txt"), "There is no file"),
        (("nonsense",), "nonsense"),
    ],
)
def test_bad_input_is_exit_2_without_a_traceback(capsys, arguments, part):
    code, out, err = run(capsys, *arguments)
    assert code == 2
    assert out == ""
    assert part in err
    assert "Traceback" not in err
    code, result = run_json(capsys, *arguments)
    assert code == result["error"]["exit_code"] == 2
    assert part in json.dumps(result, ensure_ascii=False)


def test_a_promise_of_nothing_is_refused(capsys):
    code, _, err = run(capsys, *SETTING, "--beta", "0.01", "--records", "10")
    assert code == 3
    assert "wait for 65,606" in err


def test_bad_marginal_file_names_the_line(capsys, tmp_path):
    file = tmp_path / "marginal.txt"
    file.write_text("0.5\nsecret\n")
    code, _, err = run(
        capsys, "sample-size", "--quasi-identifiers", "10", "--ell", "1", "--beta", "1",
        "--marginal-file", str(file),
    )  # fmt: skip
    assert code == 2
    assert "Line 2" in err
    assert "secret" not in err


def test_figures(capsys, tmp_path):
    folder = tmp_path / "figures"
    folder.mkdir()
    old = folder / "figure_4.csv"
    old.write_text("of last year")
    code, _, err = run(capsys, "figures", "-o", str(folder))
    assert (code, list(folder.iterdir()), old.read_text()) == (2, [old], "of last year")
    assert "--overwrite" in err
    code, result = run_json(capsys, "figures", "-o", str(folder), "--overwrite")
    assert code == 0
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        f"figure_{number}.{suffix}" for number in range(1, 5) for suffix in ("csv", "png", "svg")
    )
    assert len(result["files"]) == 12
    for number, marginal in ((1, "uniform"), (2, "uniform"), (3, "geometric"), (4, "geometric")):
        assert (folder / f"figure_{number}.png").read_bytes().startswith(b"\x89PNG")
        with (folder / f"figure_{number}.csv").open() as stream:
            rows = list(csv.DictReader(stream))
        assert list(rows[0]) == ["figure", "marginal", "ell", "beta", "delta", "p", "records"]
        assert {row["marginal"] for row in rows} == {marginal}
        assert len({(row["ell"], row["beta"], row["delta"]) for row in rows}) > 100
    # one point of the fourth figure against the formula
    row = next(row for row in rows if (row["ell"], row["beta"], row["delta"]) == ("40", "0.02", "0.01"))
    assert int(row["records"]) == math.ceil(91655.344)


def test_start_up_does_not_wait_for_compilers_or_engines():
    script = (
        "import sys; from elldelta.cli.main import execute; "
        "code = execute(['worst-case', '--values', '5', '--ell', '3', '--json']); "
        "late = {'numba', 'duckdb', 'pyarrow', 'scipy', 'matplotlib', 'pandas', 'polars'}; "
        "sys.exit(code or ', '.join(sorted(late & set(sys.modules))) or 0)"
    )
    finished = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_loads_nothing_that_computes(option):
    script = (
        "import sys; from elldelta.cli.main import execute; "
        f"code = execute([{option!r}]); "
        "heavy = {'numpy', 'numba', 'duckdb', 'pyarrow', 'scipy', 'httpx', 'fastapi'}; "
        "sys.exit(code or ', '.join(sorted(heavy & set(sys.modules))) or 0)"
    )
    finished = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    assert "elldelta" in finished.stdout
