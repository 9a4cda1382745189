"""What funcgp refuses, and what it warns of."""

from __future__ import annotations

import json
import re
from typing import Mapping, Optional

# Arguments whose names differ from members of a request.
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
        at = re.search(r"the input(?=: )" if first is None else r"the input: file row (\d+)", text)
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


def refusal(text: str, code: str, paths: Mapping[str, str] = {}, argument: Optional[str] = None) -> Error:
    """The error that the command or its server states as "problem; remedy".

    paths are called what they map to; argument is at fault, or the member of a request.
    """
    for path, name in paths.items():
        text = text.replace(path, name)
    problem, _, remedy = text.partition("; ")
    return Error(code, problem, remedy, _MEMBERS.get(argument, argument) if argument else None)


def refusal_of(line: str, code: str, paths: Mapping[str, str] = {}) -> Error:
    """The same of the last line that the command wrote: JSON, or text where it broke off."""
    said = json.loads(line) if line.startswith("{") else {"message": line.strip().removeprefix("gpexplain: ")}
    return refusal(said["message"], code, paths, said.get("argument"))
