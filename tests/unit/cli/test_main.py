import pytest

from airlock import __version__
from airlock.cli.main import main


def test_version(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"airlock {__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["fly"], ["keys"], ["keys", "create"]])
def test_what_is_not_understood(arguments: list[str], capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage: airlock" in capsys.readouterr().err
