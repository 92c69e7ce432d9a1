"""The named sizes, and the named systems under the ids of the papers' tables.

They are defaults for a part of the `model` section, which settings of a config override.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from posnmt.base import plugins
from posnmt.base.errors import refuse_unknown

SIZES: dict[str, dict[str, Any]] = {
    "tiny": {"d_model": 64, "feed_forward": 128, "heads": 4, "encoder": {"layers": 2}, "decoder": {"layers": 2}},
    "small": {"d_model": 256, "feed_forward": 1024, "heads": 4, "encoder": {"layers": 3}, "decoder": {"layers": 3}},
    "base": {"d_model": 512, "feed_forward": 2048, "heads": 8, "encoder": {"layers": 6}, "decoder": {"layers": 6}},
    "big": {
        "d_model": 1024, "feed_forward": 4096, "heads": 16, "dropout": 0.3,
        "encoder": {"layers": 6}, "decoder": {"layers": 6},
    },
}  # fmt: skip


@dataclass(frozen=True)
class Reconstruction:
    """The sources of a system whose paper was not available.

    Attributes:
        established: what the abstract says, or papers that cite it.
        recalled: what was written from memory; options change it.
        chosen: what was chosen here, because no source gives it.
    """

    established: str
    recalled: str
    chosen: str


@dataclass(frozen=True)
class System:
    """A named system: a summary, its source, and its part of the `model` section.

    Attributes:
        fewer_decoder_layers: the decoder has so many layers fewer than the encoder (N19 compensates for the cost of its
            GRUs).
        reconstruction: its sources, if its paper was not available; its summary says so too.
        subword: its part of the `subword` section.
    """

    summary: str
    source: str
    model: dict[str, Any]
    fewer_decoder_layers: int = 0
    reconstruction: Reconstruction | None = None
    subword: dict[str, Any] = field(default_factory=dict)

    def over(self, below: dict[str, Any]) -> dict[str, Any]:
        """Its part of the `model` section, given the settings of a named size."""
        if not self.fewer_decoder_layers:
            return self.model
        layers = below.get("decoder", {}).get("layers", 6) - self.fewer_decoder_layers
        return {**self.model, "decoder": {"layers": max(1, layers), **self.model["decoder"]}}


def _both(*schemes: dict[str, Any]) -> dict[str, Any]:
    """The same position schemes in encoder and decoder."""
    return {"encoder": {"position": list(schemes)}, "decoder": {"position": list(schemes)}}


RECOMMENDED = ("relative", "rr", "transformer", "lstm", "rope", "alibi-asymmetric")
"""Where to begin: one system of each kind that trains and decodes at little cost; docs/choose.md compares them."""

SYSTEMS: dict[str, System] = {
    "transformer": System(
        "sinusoids added to the word embeddings", "Vaswani et al. 2017, section 3.5", _both({"scheme": "sinusoidal"})
    ),
    "learned": System(
        "a trained vector for each position; a finite table, which limits the length of sentences",
        "Gehring et al. 2017; N19 note 1",
        _both({"scheme": "learned"}),
    ),
    "relative": System(
        "trained vectors for the clipped distance between two words, on keys and values",
        "Shaw et al. 2018; N19 eq. 4-6; R19 eq. 3-7",
        _both({"scheme": "relative"}),
    ),
    "relative-key": System(
        "as relative, with vectors on keys alone",
        "R19, gamma^K alone",
        _both({"scheme": "relative", "values": False}),
    ),
    "relative-sinusoidal": System(
        "as relative, with fixed sinusoids of the distance as the vectors",
        "R19 eq. 8-9",
        _both({"scheme": "relative", "vectors": "sinusoidal"}),
    ),
    "relative+absolute": System(
        "relative vectors and sinusoids together",
        "R19 Table 4",
        _both({"scheme": "sinusoidal"}, {"scheme": "relative"}),
    ),
    "rnn": System(
        "a GRU over the word embeddings, in encoder and decoder; one decoder layer less",
        "N19 eq. 8-9",
        _both({"scheme": "recurrent"}),
        fewer_decoder_layers=1,
    ),
    "rr": System(
        "the GRUs of rnn and the vectors of relative; one decoder layer less",
        "N19 section 4",
        _both({"scheme": "recurrent"}, {"scheme": "relative"}),
        fewer_decoder_layers=1,
    ),
    "lstm": System(
        "a bidirectional LSTM over the word embeddings of the encoder, a forward one in the decoder",
        "R19 section 3.3",
        {
            "encoder": {"position": [{"scheme": "recurrent", "cell": "lstm", "bidirectional": True}]},
            "decoder": {"position": [{"scheme": "recurrent", "cell": "lstm"}]},
        },
    ),
    "rpe-head": System(
        "5/8 of each word embedding passes through a recurrent network, as separate heads; the rest has sinusoids",
        "C19b section 4.1",
        _both({"scheme": "recurrent-heads", "layout": "rpe"}),
    ),
    "mpr-head": System(
        "half of each word embedding passes through a recurrent network, a part of every head; the rest has sinusoids",
        "C19b section 4.2",
        _both({"scheme": "recurrent-heads", "layout": "mpr"}),
    ),
    "additional-pe": System(
        "sinusoids at the input and again after the self-attention of every layer",
        "C19a section 6.2, control",
        _both({"scheme": "sinusoidal"}, {"scheme": "additional"}),
    ),
    "re-encoder": System(
        "sinusoids, and reordering embeddings after the self-attention of every encoder layer",
        "C19a eq. 6-9",
        {
            "encoder": {"position": [{"scheme": "sinusoidal"}, {"scheme": "reordering"}]},
            "decoder": {"position": [{"scheme": "sinusoidal"}]},
        },
    ),
    "re-decoder": System(
        "as re-encoder, after the self-attention of every decoder layer instead",
        "C19a eq. 6-9",
        {
            "encoder": {"position": [{"scheme": "sinusoidal"}]},
            "decoder": {"position": [{"scheme": "sinusoidal"}, {"scheme": "reordering"}]},
        },
    ),
    "re-both": System(
        "re-encoder and re-decoder together", "C19a eq. 6-9", _both({"scheme": "sinusoidal"}, {"scheme": "reordering"})
    ),
    "disan": System(
        "sinusoids; half of the encoder's heads look left, half look right",
        "Shen et al. 2018; C19b Table 1",
        {
            "encoder": {"position": [{"scheme": "sinusoidal"}, {"scheme": "directional"}]},
            "decoder": {"position": [{"scheme": "sinusoidal"}]},
        },
    ),
    "rnmt-cascade": System(
        "six bidirectional LSTM layers under the encoder's self-attention; sinusoids in the decoder",
        "Chen M. et al. 2018, cascaded encoder",
        {
            "encoder": {"position": [{"scheme": "recurrent", "cell": "lstm", "bidirectional": True, "layers": 6}]},
            "decoder": {"position": [{"scheme": "sinusoidal"}]},
        },
    ),
    "transformer-xl": System(
        "projected sinusoids of the distance, and trained preferences for words and for distances, in the logits",
        "Dai et al. 2019; future work of R19",
        _both({"scheme": "transformer-xl"}),
    ),
    "sru": System(
        "sinusoids; every feed-forward layer is a simple recurrent unit, bidirectional in the encoder",
        "Lei et al. 2018",
        {"architecture": "sru", **_both({"scheme": "sinusoidal"})},
    ),
    "rnn-nmt": System(
        "no Transformer: a bidirectional LSTM encoder, and an LSTM decoder with attention and input feeding",
        "N19 section 5; Luong et al. 2015",
        {"architecture": "rnn-nmt", "encoder": {"layers": 4}, "decoder": {"layers": 3}},
    ),
    "rnnsearch+distortion": System(
        "no Transformer: a bidirectional GRU, and a GRU decoder with attention biased to positions near the last one",
        "Bahdanau et al. 2015; Zhang et al. 2017",
        {"architecture": "rnnsearch+distortion", "encoder": {"layers": 1}, "decoder": {"layers": 1}},
    ),
    "convs2s": System(
        "no Transformer: convolutions over words with learned positions, attention in every layer of the decoder",
        "Gehring et al. 2017",
        {"architecture": "convs2s", **_both({"scheme": "learned"})},
    ),
    "dtmt": System(
        "no Transformer: recurrent networks with five cells for each word, sinusoids on the words, attention",
        "Meng and Zhang 2019",
        {
            "architecture": "dtmt",
            "encoder": {"layers": 5, "position": [{"scheme": "sinusoidal"}]},
            "decoder": {"layers": 5, "position": [{"scheme": "sinusoidal"}]},
        },
    ),
    "biarn": System(
        "reconstruction: a second encoder, recurrent and attentive, which the last decoder layer reads; sinusoids",
        "Hao et al. 2019, of which the abstract was available",
        {"architecture": "biarn", **_both({"scheme": "sinusoidal"})},
        reconstruction=Reconstruction(
            "A second encoder, an attentive recurrent network, stands beside the Transformer's own. A short-cut, one "
            "recurrent layer that the top of the decoder reads, is better than a deep recurrent encoder (abstract). "
            "The model has 97.4 M parameters at base size (C19b Table 1).",
            "The equations and the 8 recurrent steps. Without the second encoder the model has 88.0 M parameters, so "
            "this encoder adds 9.4 M.",
            "LSTM cells are as wide as the model and start from a zero state, no residual connection surrounds them, "
            "and both directions stand side by side. The second encoder then adds 36 d^2 + 39 d parameters, 9.457 M "
            "at base size. The difference of the published figures, which are rounded, is 0.06 M smaller.",
        ),
    ),
    "shared-private": System(
        "reconstruction: source and target words share features of their embeddings, translations most; sinusoids",
        "Liu et al. 2019, of which the abstract was available",
        {"architecture": "shared-private", "tie_embeddings": "target", **_both({"scheme": "sinusoidal"})},
        reconstruction=Reconstruction(
            "Related source and target words share a part of the features of their embeddings, which saves parameters "
            "(abstract). Pairs are of three kinds: translations (lm), words of the same spelling (wf) and unrelated "
            "words (ur).",
            "Pairs share 0.9 (lm), 0.7 (wf) or 0.5 (ur) of the features. Each word is paired with one word at most: "
            "first with the best match of fast_align, then by spelling, then by frequency rank. The target embedding "
            "is the output projection.",
            "eflomal replaces fast_align, and matches below a probability of 0.5 are not used. The parameter count "
            "below assumes that all words are unrelated; translations and words of the same spelling lower it.",
        ),
        subword={"pairs": {}},
    ),
    "rope": System(
        "queries and keys rotated by angles that grow with their positions; products depend on distances only",
        "Su et al. 2021",
        _both({"scheme": "rope"}),
    ),
    "xpos": System(
        "as rope, with products in the decoder that decay with the distance",
        "Sun et al. 2022",
        {"encoder": {"position": [{"scheme": "rope"}]}, "decoder": {"position": [{"scheme": "xpos"}]}},
    ),
    "shape": System(
        "sinusoids; in training each sentence starts at a random position",
        "Kiyono et al. 2021",
        _both({"scheme": "shape"}),
    ),
    "cape": System(
        "sinusoids; in training each sentence is shifted and stretched, and each word shifted slightly, at random",
        "Likhomanenko et al. 2021",
        _both({"scheme": "cape"}),
    ),
    "randomised": System(
        "sinusoids; in training the words of a sentence have random positions, in order",
        "Ruoss et al. 2023",
        _both({"scheme": "randomised"}),
    ),
    "alibi": System(
        "a penalty linear in the distance, with a fixed slope for each head; the encoder does not see the direction",
        "Press et al. 2022",
        _both({"scheme": "alibi"}),
    ),
    "alibi-asymmetric": System(
        "as alibi, with half of the encoder's heads looking left and half looking right",
        "Press et al. 2022, and its author's form for encoders",
        _both({"scheme": "alibi", "encoder": "asymmetric"}),
    ),
    "t5-bias": System(
        "a trained number for each head and bucket of distances, shared by all layers of a side",
        "Raffel et al. 2020",
        _both({"scheme": "t5-bias"}),
    ),
    "kerple": System(
        "as alibi-asymmetric, with a trained logarithmic function of the distance in place of the fixed slope",
        "Chi et al. 2022",
        _both({"scheme": "kerple", "encoder": "asymmetric"}),
    ),
    "sandwich": System(
        "as alibi-asymmetric, with the inner products of sinusoids in place of the fixed slope",
        "Chi et al. 2023",
        _both({"scheme": "sandwich", "encoder": "asymmetric"}),
    ),
    "fire": System(
        "a bias from a small network in each layer, of the distance relative to the sentence's length",
        "Li S. et al. 2023",
        _both({"scheme": "fire"}),
    ),
    "cope": System(
        "trained vectors for the number of words between two words that the query selects",
        "Golovneva et al. 2024",
        _both({"scheme": "cope"}),
    ),
    "pre-reordering": System(
        "as transformer, on source text that `posnmt condition reorder` has put into the order of the target",
        "C19a section 6.2; the pre-orderer of Neubig et al. 2012",
        _both({"scheme": "sinusoidal"}),
    ),
    "none": System("no position information except the decoder's causal mask", "control", _both()),
}


def named(name: str) -> System:
    """A system by its id: posnmt's own, or of an installed package.

    Raises:
        UserError: no system has this id; or that of a package cannot be imported, or is not a system.
    """
    if name in SYSTEMS:
        return SYSTEMS[name]
    refuse_unknown(name, [*SYSTEMS, *plugins.names("system")], "system")
    return plugins.load("system", name, _as_system)


def _as_system(offered: Any) -> System:
    """A system from what a package offers: a `System`, or a dictionary of its attributes.

    Raises:
        TypeError: it is neither.
    """
    if isinstance(offered, System):
        return offered
    if not isinstance(offered, dict) or {*map(type, (offered.get("summary"), offered.get("source")))} != {str}:
        raise TypeError("a dictionary with summary, source and model is needed")
    if not isinstance(offered.get("model"), dict):
        raise TypeError("its model is no dictionary")
    if not isinstance(offered.get("subword", {}), dict):
        raise TypeError("its subword is no dictionary")
    return System(**offered)
