"""What funcgp refuses, and what it warns of."""

from __future__ import annotations

import re
from typing import Mapping, Optional

# Arguments of Python whose names differ from the flags of the command.
_ARGUMENTS = {
    "data": "X",
    "input": "X",
    "target": "y",
    "id": "ids",
    "out": "path",
    "posterior": "path",
}
# The same of members of a request.
_MEMBERS = {"values": "row", "rows": "X", "without": "rows"}


class Error(ValueError):
    """A refusal in one sentence.

    code      a word for programs, such as "bad_values"
    remedy    what to do about it, "" where nobody knows
    argument  the argument at fault, None where it is none alone
    """

    def __init__(self, code: str, problem: str, remedy: str = "", argument: Optional[str] = None) -> None:
        super().__init__(f"{problem}; {remedy}" if remedy else problem)
        self.code, self.remedy, self.argument = code, remedy, argument

    def at(self, first: Optional[int]) -> "Error":
        """The same of the rows of X from first on, which one request has, or of the only row."""
        text = str(self)
        at = re.search(r"the input: file row (\d+)", text)
        if not at:
            return self
        text = text.replace(at[0], "the row" if first is None else f"row {first + int(at[1])} of X")
        problem, _, remedy = text.partition("; ")
        return Error(self.code, problem, remedy, "row" if first is None else "X")


class FitWarning(UserWarning):
    """What does not go together in a fit, though there is an answer. code is a word for programs."""

    def __init__(self, text: str, code: str = "") -> None:
        super().__init__(text)
        self.code = code


def argument(flag: str) -> str:
    """The argument of Python that a flag, without its dashes, is."""
    return _ARGUMENTS.get(flag, flag.replace("-", "_"))


# A flag, and a value of it that is written as it is given.
_VALUES = "auto|exact|gaussian|heldout|kept|loo|match|minmax|nystrom|no|none|poisson|robust|sample|signed|stated|stratified|yes"
_FLAG = re.compile(rf"--([a-z][a-z-]*[a-z])(?: (?:({_VALUES})|(\d[\d.e+-]*\d|\d))(?![\w-]))?")


def without_flags(text: str) -> str:
    """A message of the command with arguments in place of flags, such as at="stated"."""

    def said(m: "re.Match[str]") -> str:
        value = f'="{m[2]}"' if m[2] else f"={m[3]}" if m[3] else ""
        return argument(m[1]) + value

    return _FLAG.sub(said, text)


def refusal(text: str, code: str, paths: Mapping[str, str] = {}, member: Optional[str] = None) -> Error:
    """The error that the command or its server states as "problem; remedy".

    paths are called what they map to; member is what a request has at fault.
    """
    flag = _FLAG.search(text)
    at_fault = argument(flag[1]) if flag else _MEMBERS.get(member, member) if member else None
    text = re.sub(r"^gpexplain: ", "", text.strip())
    for path, name in paths.items():
        text = text.replace(path, name)
    problem, _, remedy = without_flags(text).partition("; ")
    return Error(code, problem, remedy, at_fault)
