"""Several mistakes told together."""

import pytest

from posnmt.errors import UserError, UserErrors, raise_all


def test_faults_that_were_found_together_join_others_and_are_said_once() -> None:
    one, two, three = (UserError(f"fault {number}", f"file:{number}") for number in (1, 2, 3))
    with pytest.raises(UserErrors) as raised:
        raise_all([UserErrors([one, two]), three, UserError("fault 1", "file:1")])
    assert raised.value.lines == ["fault 1 (file:1)", "fault 2 (file:2)", "fault 3 (file:3)"]
    assert str(raised.value) == "\n".join(raised.value.lines)
