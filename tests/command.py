"""The command line, called as a user does, but in this process."""

from typer.testing import CliRunner, Result

from gape import cli


def gape(*arguments: object) -> Result:
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


def one_line_error(result: Result) -> str:
    """The error of a command that failed as it should: one line on standard error, exit code 1, no traceback."""
    assert result.exit_code == 1
    assert not result.stdout
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr
