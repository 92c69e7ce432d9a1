"""The check of a written model: what another program computes and searches with is compared with posnmt."""

import pytest
import torch

from posnmt.base.errors import UserError
from posnmt.deploy.verify import LENGTHS, TOLERANCE, verify
from posnmt.run.run import Run
from posnmt.translate.subwords import score_subwords
from tests.support.untrained import LEARNED


class Program:
    """posnmt as the other program, which may have other weights."""

    name = "another program"

    def __init__(self, change: float = 0.0) -> None:
        self.model = Run.open(LEARNED).model("model")
        with torch.no_grad():
            self.model.output.bias[5] += change

    def score(self, sources, targets):
        return score_subwords([self.model], sources, targets, 4096, torch.device("cpu"))


class Searching(Program):
    """The same with a search, by the weights of a second model."""

    def __init__(self, change: float = 0.0) -> None:
        super().__init__()
        self.second = Program(change)

    def search(self, sources, length):
        outputs = [[5] * length for _ in sources]
        return outputs, self.second.score(sources, outputs)


@pytest.mark.parametrize("program", [Program, Searching])
def test_other_probabilities_are_refused(program):
    run = Run.open(LEARNED)
    model, text = run.model("model"), run.text()
    found = verify(model, text, (None, None), program())
    assert (found["pairs"], found["program"]) == (len(LENGTHS), program.name)
    assert found["largest_difference"] <= TOLERANCE
    with pytest.raises(UserError, match=program.name):
        verify(model, text, (None, None), program(1.0))
