"""The sections of a configuration, typed and frozen: `data`, `subword`, `model`, `train`, `decode`.

`posnmt.run.resolve` reads a configuration from a file, fills in named systems and sizes, and checks it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    field_validator,
    model_validator,
)

from posnmt.base.version import FORMAT, format_fault
from posnmt.config.corpora import Corpus, ListedCorpus, training_text
from posnmt.config.marks import Chosen, MayChange, OfWeights, On
from posnmt.config.numbers import as_number
from posnmt.config.segmenters import SEGMENTERS
from posnmt.config.yaml import Section

Positive = Annotated[int, Field(gt=0)]
LARGEST = 100_000_000
"""The largest size of a model: PyTorch cannot count the bytes of matrices far beyond it."""
Size = Annotated[int, Field(gt=0, le=LARGEST)]
Init = Literal["xavier", "pytorch", "fairseq", "small-output", "depth-scaled", "deepnorm"]
"""Initialisation of matrices: see `posnmt.model.start`."""
Activation = Literal["relu", "gelu", "silu"]
"""The function inside the feed-forward layers: see `posnmt.model.layers`."""
Norm = Literal["post", "pre", "deep"]
"""Position of layer normalisation: see `posnmt.model.layers`."""
Split = Literal["as-trained", "sentences", "auto", "huge", "off"]
"""Which lines are translated in parts: see `posnmt.translate.parts`."""
Complete = Literal["as-trained", "mend", "warn", "off"]
"""How sentences that a translation leaves out are handled: see `posnmt.translate.omissions`."""
Share = Annotated[float, Field(ge=0.0, lt=1.0)]


Tokeniser = Literal["none", "moses", "mecab", "jieba"]


class Tokenisers(Section):
    """The word tokeniser of each side, applied before subword segmentation."""

    source: Tokeniser = Field("none", description="tokeniser of the source text")
    target: Tokeniser = Field("none", description="tokeniser of the target text")


class Data(Section):
    """The text, and its processing before subwords."""

    root: str = Field(
        ".",
        description="base folder of the paths below; itself relative to the config file, or without one to the "
        "working directory; absolute in a loaded config. Paths may contain ${NAME} and ${NAME:-default}",
    )
    train: Corpus | list[ListedCorpus] = Field(
        description="the training text: a corpus, or a list of corpora with their weights, marks and times"
    )
    dev: Corpus | None = Field(None, description="the text to measure on during training, a corpus")
    held_out: Annotated[Positive | None, Chosen()] = Field(
        None,
        description="instead of dev: this many pairs of train, drawn at random (always the same ones), are used as dev "
        "and are not trained on; pairs that occur twice are not drawn, if there are enough others; subwords are "
        "learned from all pairs",
    )
    source_language: Annotated[str, Chosen()] = Field(
        "en", description="language code, for the tokeniser: ja and zh for the segmenters"
    )
    target_language: Annotated[str, Chosen()] = Field("de", description="language code, for the tokeniser")
    tokenise: Tokeniser | Tokenisers = Field(
        "none",
        description="before subwords, undone in the output: moses (sacremoses), mecab (Japanese; extra ja), jieba "
        "(Chinese; extra zh); one for both sides, or {source: ..., target: ...}",
    )
    truecase: bool = Field(
        False, description="Moses truecasing learned from the training text, of the sides with tokenise: moses"
    )
    max_length: Annotated[Positive | None, Chosen()] = Field(
        100, description="longest training sentence in subwords on either side; null: no limit"
    )
    accept: list[Literal["empty", "crlf"]] = Field(
        [],
        description="faults in the text to accept: empty (the pair is dropped and counted), crlf (the CR is removed "
        "and counted)",
    )
    store: str | None = Field(
        None,
        description="folder of prepared stores; default: stores in $POSNMT_CACHE, or in posnmt of the "
        "user's cache ($XDG_CACHE_HOME, else ~/.cache)",
    )

    @property
    def corpora(self) -> list[ListedCorpus]:
        """The list of training corpora; empty if `train` is one corpus."""
        return self.train if isinstance(self.train, list) else []

    @property
    def marks(self) -> list[str]:
        """The marks of the training corpora, each once."""
        return list(dict.fromkeys(each.mark for each in self.corpora if each.mark is not None))

    @property
    def has_dev(self) -> bool:
        """Whether there are pairs to measure on during training."""
        return self.dev is not None or self.held_out is not None

    @property
    def tokenisers(self) -> tuple[Tokeniser, Tokeniser]:
        """The tokenisers of source and target."""
        both = self.tokenise
        return (both.source, both.target) if isinstance(both, Tokenisers) else (both, both)

    @field_validator("train", mode="wrap")
    @classmethod
    def _one_or_several(cls, value: Any, _: ValidatorFunctionWrapHandler) -> Any:
        """The faults of the form that is written alone."""
        return training_text(value)

    @field_validator("tokenise", mode="wrap")
    @classmethod
    def _one_fault_and_one_form(cls, value: Any, validate: ValidatorFunctionWrapHandler) -> Any:
        """One message for faults of both forms; two equal sides become one name, so that they compare equal."""
        try:
            chosen = validate(value)
        except ValidationError:
            names = ", ".join(get_args(Tokeniser))
            raise ValueError(f"choose from {names}, or write {{source: ..., target: ...}}; got {value!r}") from None
        return chosen.source if isinstance(chosen, Tokenisers) and chosen.source == chosen.target else chosen

    @model_validator(mode="after")
    def _one_dev(self) -> Data:
        if self.dev is not None and self.held_out is not None:
            raise ValueError("held_out makes a dev corpus where there is none: leave it out, or leave dev out")
        return self

    @model_validator(mode="after")
    def _truecase_needs_tokens(self) -> Data:
        if self.truecase and "moses" not in self.tokenisers:
            raise ValueError("truecase works on tokenised text: set tokenise: moses as well")
        return self

    @model_validator(mode="after")
    def _segmenters_fit_the_languages(self) -> Data:
        for side, tokeniser in zip(("source", "target"), self.tokenisers, strict=True):
            needs, language = SEGMENTERS.get(tokeniser), getattr(self, f"{side}_language")
            if needs and not needs.serves(language):
                raise ValueError(
                    f"{tokeniser} segments {needs.language}, but {side}_language is {language!r}: "
                    f"set it to {needs.codes[0]}, or tokenise: {{source: ..., target: ...}}"
                )
        return self


class Pairs(Section):
    """Pairs of source and target subwords that share features of their embeddings, for the system shared-private."""

    lexicon: str | None = Field(
        None,
        description="translations of subwords, one a line: source <tab> target <tab> probability; default: eflomal "
        "aligns the training text",
    )
    threshold: float = Field(
        0.5, ge=0, le=1, description="least probability of a target subword that is paired as a translation"
    )


class SubwordSampling(Section):
    """Random segmentations of the training text, for subword regularisation."""

    segmentations: int = Field(
        8,
        gt=0,
        le=256,
        description="how many of each training pair the store holds; the first pass has the first, and so on in turn",
    )
    dropout: Share = Field(
        0.1, description="bpe: probability that a merge is skipped (BPE-dropout); 0: the usual segmentation"
    )
    alpha: float = Field(
        0.2,
        ge=0,
        le=100,
        description="unigram: exponent of the probabilities of segmentations; 0: all are equally probable, above 1: "
        "next to the usual one",
    )


class Subword(Section):
    """SentencePiece subwords. A model contains 4 subwords more than `vocabulary`: pad, unk, bos, eos."""

    text: str | None = Field(
        None,
        description="instead of learning: the text/ folder of a run or a store, whose tokenisation and subwords are "
        "used; languages, tokenisation and shared must agree with it, the keys below are ignored",
    )
    pieces: Literal["kept", "extended"] = Field(
        "kept",
        description="with text: whether its vocabulary grows; kept: it stays as it is; extended: characters of "
        "the training text that it lacks are added as subwords, as far as character_coverage goes, and all other "
        "text is split as before",
    )
    shared: bool = Field(True, description="one vocabulary for both sides, or one each")
    type: Literal["bpe", "unigram"] = Field("bpe", description="SentencePiece's algorithm")
    vocabulary: Annotated[Size, Chosen()] = Field(
        8000, description="vocabulary size: the number of subwords of each vocabulary, without the 4 special symbols"
    )
    character_coverage: Annotated[float, Chosen()] = Field(
        1.0, ge=0.98, le=1.0, description="share of characters kept; 0.9995 suits Japanese and Chinese"
    )
    normalisation: Literal["identity", "nmt_nfkc", "nfkc"] = Field(
        "identity",
        description="identity: every character but control characters stays as it is; nmt_nfkc and nfkc: "
        "SentencePiece turns 10² into 102, ½ into 1⁄2 and a no-break space into a space, also in translations",
    )
    byte_fallback: Annotated[bool, Chosen()] = Field(
        False,
        description="spell characters that the vocabulary lacks in their UTF-8 bytes, so that none is unknown; "
        "the bytes are 256 of its subwords",
    )
    sample: Positive = Field(1_000_000, description="sentences a side, drawn at random, that subwords are learned from")
    pairs: Pairs | None = Field(
        None, description="how subwords are paired, for the system shared-private, which sets it; no other reads pairs"
    )
    sampling: SubwordSampling | None = Field(
        None,
        description="subword regularisation: training reads random segmentations of its text; dev and "
        "translation use the usual one",
    )


class SchemeChoice(BaseModel):
    """One position scheme by name, with its options; the registry of schemes checks them."""

    model_config = ConfigDict(extra="allow", frozen=True)
    scheme: str = Field(
        description="name of the scheme: see `posnmt systems --parts`; or a class outside posnmt, module:Class"
    )

    @property
    def options(self) -> dict[str, Any]:
        """The options of the scheme, and perhaps `layers`, a list (`posnmt_position.registry.split`)."""
        return dict(self.model_extra or {})

    @model_validator(mode="before")
    @classmethod
    def _numbers(cls, choice: Any) -> Any:
        return {key: as_number(each) for key, each in choice.items()} if isinstance(choice, dict) else choice


class Side(Section):
    """The layers and position schemes of the encoder or of the decoder."""

    layers: Annotated[int, OfWeights()] = Field(6, gt=0, le=1000, description="number of layers")
    position: list[SchemeChoice] = Field(
        [],
        description="position schemes with their options, instead of a system: [{scheme: sinusoidal}, {scheme: "
        "relative, distance: 8}]; layers: [0, 1] gives a scheme to these layers alone, counted from 0; [] means no "
        "position information; the order matters for recurrences only",
    )


class Decoder(Side):
    """The decoder, with its attention to the source."""

    cross: list[SchemeChoice] = Field(
        [],
        description="position schemes of the attention to the source, as in position: relative, t5-bias, alibi and"
        " others read the offset between a source token and the place where the target token is expected in the"
        " source, by the lengths of the training text; layers: [0, 1] counts the decoder's layers",
    )


class Model(Section):
    """The model. Defaults are the papers' base size."""

    system: Annotated[str | None, Chosen()] = Field(
        None, description="a named system, which sets the position schemes of both sides: see `posnmt systems`"
    )
    without: Literal["encoder", "decoder", "both"] | None = Field(
        None, description="an ablation: the named system without its position information on this side (C19b Table 3)"
    )
    size: Annotated[Literal["tiny", "small", "base", "big"] | None, Chosen()] = Field(
        None,
        description="tiny: 64 wide, 2+2 layers; small: 256 wide, 3+3; base: 512 wide, 6+6; big: 1024 wide, 6+6, "
        "dropout 0.3; single settings override it; default: base",
    )
    d_model: Annotated[Size, OfWeights()] = Field(512, description="width of the model, a multiple of heads")
    feed_forward: Annotated[Size, OfWeights()] = Field(2048, description="width of the feed-forward layers")
    heads: Annotated[Size, OfWeights()] = Field(8, description="attention heads")
    dropout: Annotated[Share, Chosen()] = Field(
        0.1,
        description="on embeddings, once, after the position schemes (recurrent can replace it by its dropout_after), "
        "and on every sub-layer's output",
    )
    attention_dropout: Share = Field(0.0, description="on attention weights; above 0 a slower kernel is used")
    feed_forward_dropout: Share = Field(0.0, description="inside the feed-forward layer, after its activation")
    norm: Annotated[Norm, OfWeights()] = Field(
        "post",
        description="position of layer normalisation: post, LN(x + Sublayer(x)), as in the papers; pre, "
        "x + Sublayer(LN(x)), and once more at the end of encoder and decoder; deep (DeepNorm), LN(a x + Sublayer(x))",
    )
    norm_epsilon: Annotated[float, OfWeights()] = Field(
        1e-5, gt=0, description="epsilon of every layer normalisation of a Transformer; N19's published code uses 1e-6"
    )
    init: Init = Field(
        "depth-scaled",
        description="initialisation of a Transformer's sub-layers: xavier; pytorch (N19's published code); fairseq "
        "(fairseq 0.12.2); small-output, depth-scaled (small initial terms of the residual stream); deepnorm (with "
        "norm: deep)",
    )
    embedding_init: Annotated[Literal["scaled-normal", "small-normal", "normal"], Chosen()] = Field(
        "scaled-normal",
        description="initialisation of word embeddings: scaled-normal is N(0, 1/d_model), small-normal has half of its "
        "deviation, normal is N(0, 1), as in N19's published code; a separate output projection always starts from "
        "N(0, 1/d_model)",
    )
    activation: Annotated[Activation, OfWeights()] = Field(
        "relu",
        description="function inside the feed-forward layers of a Transformer: relu, as in the papers; gelu; silu, also"
        " called swish, as in Marian's models",
    )
    source_end: Annotated[bool, OfWeights()] = Field(
        True,
        description="whether a Transformer reads the end of the source sentence as a symbol; OpenNMT-py's do not",
    )
    source_begin: Annotated[bool, OfWeights()] = Field(
        False,
        description="whether a Transformer or RNN-NMT reads the begin symbol of targets before the source too, as in "
        "N19's published code",
    )
    scale_embeddings: Annotated[bool, OfWeights()] = Field(
        True, description="multiply word embeddings by sqrt(d_model); RNN-NMT and RNNsearch ignore it"
    )
    tie_embeddings: Annotated[Literal["none", "target", "all"], Chosen(), OfWeights()] = Field(
        "none", description="target: output projection = target embedding; all: source embedding too (shared subwords)"
    )
    max_length: Size = Field(
        1024,
        description="length of finite tables (learned positions): a longer sentence is an error, never a clipped "
        "position; other schemes ignore it",
    )
    encoder: Side = Field(Side(), description="the encoder")
    decoder: Decoder = Field(Decoder(), description="the decoder")
    architecture: Annotated[str, OfWeights()] = Field(
        "transformer", description="another architecture, such as rnn-nmt; a named system sets it; see docs/systems.md"
    )
    options: Annotated[dict[str, Any], OfWeights()] = Field({}, description="the architecture's own options")

    @field_validator("options")
    @classmethod
    def _numbers(cls, options: dict[str, Any]) -> dict[str, Any]:
        return {key: as_number(each) for key, each in options.items()}

    @model_validator(mode="after")
    def _heads_divide(self) -> Model:
        if self.d_model % self.heads:
            raise ValueError(f"d_model must be a multiple of heads; {self.d_model} is not a multiple of {self.heads}")
        return self

    @property
    def schemes(self) -> dict[str, list[SchemeChoice]]:
        """The position schemes by the setting that lists them, such as `encoder.position`."""
        return {f"{side}.{key}": getattr(getattr(self, side), key) for side, key in SCHEME_LISTS}

    @property
    def recorded_schemes(self) -> dict[str, list[SchemeChoice]]:
        """The position schemes of `encoder` and `decoder`, and of `cross` where it has any, as records name them."""
        cross = {"cross": self.decoder.cross} if self.decoder.cross else {}
        return {"encoder": self.encoder.position, "decoder": self.decoder.position, **cross}


SCHEME_LISTS = (("encoder", "position"), ("decoder", "position"), ("decoder", "cross"))
"""Side and key of each list of position schemes in a `model` section."""


def scheme_lists(model: Mapping[str, Any]) -> Iterator[tuple[str, str, list[dict[str, Any]]]]:
    """Side, key and value of each list of position schemes that a `model` section has, as written.

    A value that is no list of schemes is passed over: `Config` refuses it.
    """
    for side, key in SCHEME_LISTS:
        section = model.get(side)
        schemes = section.get(key) if isinstance(section, Mapping) else None
        if isinstance(schemes, list) and all(_is_scheme(each) for each in schemes):
            yield side, key, schemes


def _is_scheme(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("scheme"), str)


def with_schemes(model: Mapping[str, Any], change: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    """The lists of position schemes of a `model` section, in their sections, with each scheme changed."""
    changed: dict[str, Any] = {}
    for side, key, schemes in scheme_lists(model):
        changed.setdefault(side, {})[key] = [change(each) for each in schemes]
    return changed


WARMUP = 4000
"""The default warm-up in updates, for budgets that are not in minutes."""


class Schedule(Section):
    """How the learning rate rises and falls during training."""

    type: Literal["constant", "noam", "inverse-square-root", "plateau", "cosine"] = Field(
        "inverse-square-root",
        description="constant after the warm-up (N19), noam (C19a, C19b), plateau (R19), cosine to the budget's end",
    )
    warmup: Annotated[float | None, Chosen()] = Field(
        None,
        ge=0,
        description="updates of linear growth from 0, or below 1 a share of the budget (0: none); default: "
        f"{WARMUP}; for a budget in minutes, by the number of updates that fit into it",
    )
    decay: float = Field(0.9, gt=0, lt=1, description="plateau: factor on the rate when dev perplexity stops falling")
    patience: Positive = Field(6, description="plateau: evaluations without a better dev perplexity before a decay")
    minimum: float = Field(0.0, ge=0, description="plateau: lower limit of the rate")
    cooldown: Annotated[float | None, Chosen()] = Field(
        None,
        ge=0,
        le=1,
        description="the last share of the budget, over which the rate falls linearly to 0 (0: none); default: "
        "0; for a budget in minutes, by the number of updates that fit into it. A run that is resumed with a "
        "longer budget gets a higher rate again",
    )

    @model_validator(mode="after")
    def _noam_counts_updates(self) -> Schedule:
        if self.type == "noam" and self.warmup is not None and 0 < self.warmup < 1:
            raise ValueError(f"noam's warmup is a number of updates, not a share of the budget; got {self.warmup}")
        return self


class Train(Section):
    """How a model is trained: batches, optimiser, schedule, evaluation and limits."""

    seed: int = Field(1, ge=0, lt=2**63, description="random seed of initial weights, batches and dropout")
    init: str | None = Field(
        None,
        description="the folder of a run whose trained weights this training starts from, relative to data.root; "
        "settings of the text and of the model that are left out are taken from this run",
    )
    freeze: list[str] = Field(
        [],
        description="parts whose weights stay as they are: encoder, decoder, embeddings, position, output, "
        "encoder.layers.0, and patterns such as decoder.layers.*.cross",
    )
    steps: Annotated[Positive | None, MayChange()] = Field(None, description="stop after this many updates")
    epochs: Annotated[Positive | None, MayChange()] = Field(
        None, description="stop after this many passes over the corpus"
    )
    minutes: Annotated[float | None, MayChange()] = Field(
        None, gt=0, description="stop after this many minutes of training, resumes included"
    )
    batch: Annotated[Positive, Chosen()] = Field(
        4096, description="most padded tokens of a batch on either side, or sentences"
    )
    batch_unit: Literal["tokens", "sentences"] = Field("tokens", description="what batch counts")
    sort_by: Literal["target", "source"] = Field(
        "source",
        description="the side by whose length pairs are sorted for batches, before the other side; fairseq sorts "
        "by source",
    )
    with_replacement: bool = Field(
        False,
        description="draw the pairs of each batch with replacement from the whole corpus, of any length, as N19's "
        "published code does; needs batch_unit: sentences, without sort_by; a pass is then as many "
        "batches as the corpus fills",
    )
    concatenate: float = Field(
        0.0,
        ge=0,
        le=1000,
        description="concatenations of two random pairs (Kondo et al. 2021), relative to the corpus; 1 doubles the "
        "corpus, by lines of two sentences: for texts with several sentences in a line",
    )
    context: int | None = Field(
        None,
        ge=2,
        le=1000,
        description="further training pairs, each of which joins a pair with pairs before it in its document, at "
        "most this number in all: for `translate --join` (Tiedemann and Scherrer 2017); needs data.train.documents",
    )
    accumulate: int = Field(
        1,
        gt=0,
        le=100_000,
        description="batches of each device that are accumulated for one update; the gradient is the mean over all "
        "their tokens",
    )
    learning_rate: Annotated[float, Chosen()] = Field(5e-4, gt=0, description="peak rate; noam: factor of the formula")
    schedule: Schedule = Field(Schedule(), description="the learning rate schedule")
    optimizer: Annotated[Literal["adam", "muon"], Chosen()] = Field(
        "adam",
        description="muon: Muon (Jordan et al. 2024) for the matrices of linear layers except the output projection, "
        "Adam for everything else",
    )
    muon_factor: float = Field(1.5, gt=0, description="muon: the rate of the matrices, as a multiple of learning_rate")
    muon_every: Annotated[Positive, Chosen()] = Field(
        1,
        description="muon: K; each update changes one in K matrices, in rotation, at K times their learning rate",
    )
    adam_betas: tuple[Share, Share] = Field((0.9, 0.98), description="Adam's decay rates of its two moments")
    adam_epsilon: float = Field(1e-9, gt=0, description="Adam's epsilon")
    weight_decay: float = Field(0.0, ge=0, description="AdamW's decoupled decay; 0 is Adam")
    label_smoothing: Share = Field(0.1, description="share of the probability that is spread over the whole vocabulary")
    clip: float | None = Field(1.0, gt=0, description="largest gradient norm; null: no clipping")
    non_finite: Annotated[Literal["stop", "skip", "back-off"], MayChange()] = Field(
        "stop",
        description="where a loss, a gradient or dev perplexity is NaN or infinite: stop; skip the update; "
        "back-off: go back to the newest checkpoint and halve the rate",
    )
    precision: Literal["auto", "bf16", "fp32", "fp64"] = Field(
        "auto", description="auto: bf16 if the hardware multiplies it, else fp32; fp64 is for tests"
    )
    compile: bool = Field(
        False,
        description="torch.compile of each Transformer layer: takes about a minute, before the first updates and in "
        "some later ones",
    )
    shard: Annotated[bool, MayChange()] = Field(
        False,
        description="each of torchrun's processes keeps a slice of the weights, gradients and Adam's moments (FSDP2): "
        "for models that do not fit one device",
    )
    evaluate_every: Annotated[Positive | None, Chosen()] = Field(
        1000,
        description="updates between two evaluations on dev, each with a checkpoint; null, for a budget in minutes: as "
        "many evaluations as take at most a tenth of the time, evenly over it",
    )
    dev_pairs: Annotated[Positive | None, Chosen()] = Field(
        None, description="dev pairs that are evaluated on, spread evenly over dev; null: all"
    )
    dev_bleu: Annotated[bool, Chosen()] = Field(
        True, description="translate dev greedily at each evaluation and report BLEU"
    )
    best_by: Literal["bleu", "perplexity"] = Field(
        "bleu",
        description="what the best checkpoint is chosen by; perplexity decides at equal BLEU, and with dev_bleu: false",
    )
    bleu_tokenizer: Annotated[Literal["13a", "none", "zh", "ja-mecab", "char", "intl", "flores200"], Chosen()] = Field(
        "13a", description="sacreBLEU's tokeniser; ja-mecab needs the extra ja, none is for tokenised text"
    )
    patience: Annotated[Positive | None, MayChange()] = Field(
        None, description="stop after this many evaluations without a better one"
    )
    average: Annotated[Positive, Chosen()] = Field(
        5,
        description="checkpoints kept and averaged at the end (1: no averaging); the average becomes the model if it "
        "is better on dev",
    )
    log_every: Annotated[Positive, Chosen(), MayChange()] = Field(
        50, description="updates between two lines of metrics.jsonl"
    )
    loggers: Annotated[list[Literal["tensorboard", "wandb"]], MayChange()] = Field(
        ["tensorboard"],
        description="programs that get the numbers of metrics.jsonl: tensorboard (files in the run folder), wandb "
        "(Weights & Biases: extra wandb); one that fails gives a warning and changes nothing",
    )

    @model_validator(mode="after")
    def _some_end(self) -> Train:
        if self.steps is None and self.epochs is None and self.minutes is None:
            raise ValueError("set when to stop: steps, epochs or minutes")
        return self

    @model_validator(mode="after")
    def _evaluates(self) -> Train:
        if self.evaluate_every is None and self.minutes is None:
            raise ValueError("evaluations follow the clock (evaluate_every: null), and no minutes are set: set either")
        return self

    @model_validator(mode="after")
    def _draws_sentences(self) -> Train:
        if self.with_replacement and self.batch_unit != "sentences":
            raise ValueError("with_replacement draws a number of sentences: set batch_unit: sentences as well")
        if self.with_replacement and self.sort_by != "source":
            raise ValueError("with_replacement sorts nothing: leave sort_by out")
        return self

    @model_validator(mode="after")
    def _joined_once(self) -> Train:
        if self.context and self.concatenate:
            raise ValueError("context and concatenate both join pairs: choose one of them")
        return self

    @model_validator(mode="after")
    def _shards_alone(self) -> Train:
        if self.shard and self.compile:
            raise ValueError("compile and shard cannot be combined: set one of them to false")
        if self.shard and self.freeze:
            raise ValueError("freeze needs unsharded weights: leave it out, or set shard: false")
        if self.shard and self.optimizer == "muon":
            raise ValueError("muon needs unsharded matrices: set optimizer: adam, or shard: false")
        return self


class Sampling(Section):
    """How to draw translations from the model's probabilities."""

    temperature: float = Field(1.0, gt=0, description="divides logits: below 1, probable subwords are drawn more often")
    top_k: int = Field(0, ge=0, description="draw only among so many most probable subwords; 0: all")
    top_p: float = Field(
        1.0, gt=0, le=1, description="draw only among the fewest most probable subwords with this share of probability"
    )
    seed: int = Field(
        1, ge=0, lt=1 << 32, description="random seed; the seed and the number of a line determine its translation"
    )


class Positions(Section):
    """Changes of positions at inference, for texts longer than those of training; none by default."""

    interpolate: float | None = Field(
        None, gt=0, description="divide positions by this factor: sinusoids, rope, xpos, shape, cape, randomised"
    )
    ntk: float | None = Field(
        None, ge=1, description="rope, xpos: a larger base, which divides the lowest frequency by this factor"
    )
    yarn: float | None = Field(
        None, ge=1, description="rope: divide by this factor the frequencies that turn seldom within the trained length"
    )
    clip: Positive | None = Field(
        None, description="largest distance; longer ones count as this one: rope, xpos, biases by distance"
    )
    group: Positive | None = Field(
        None, description="with clip, for rope and xpos: longer distances grow by 1 for so many tokens"
    )
    temperature: Literal["log"] | None = Field(
        None,
        description="log: multiply self-attention's logits by log n / log L for n > L tokens, L the trained length",
    )

    @model_validator(mode="after")
    def _one_scaling(self) -> Positions:
        chosen = [name for name in ("interpolate", "ntk", "yarn") if getattr(self, name) is not None]
        if len(chosen) > 1:
            raise ValueError(f"{' and '.join(chosen)} both scale positions: choose one of them")
        if self.group is not None and self.clip is None:
            raise ValueError("group needs clip, the distance up to which tokens are counted one by one")
        return self

    @property
    def changed(self) -> bool:
        """Whether any setting differs from how the model was trained."""
        return any(value is not None for _, value in self)


def pattern_fault(pattern: str) -> str:
    """What is wrong with a regular expression of `decode.protect`; empty if nothing is."""
    try:
        return f"{pattern!r} matches the empty text" if re.search(pattern, "") else ""
    except re.error as error:
        return f"{pattern!r} is not a regular expression: {error}"


class Decode(Section):
    """How translations are searched for: beam, penalties, limits and batches."""

    # The options of commands, of the server and of Python are made from these fields; see CONTRIBUTING.md.

    beam: Annotated[int, On(server=True, common=True)] = Field(
        4, gt=0, le=1000, description="hypotheses kept; 1 is greedy search"
    )
    length_penalty: float = Field(1.0, ge=0, le=10, description="a: hypotheses rank by log-probability / length^a")
    coverage_penalty: float = Field(
        0.0,
        ge=0,
        description="beta: lowers the scores of finished hypotheses whose attention leaves source subwords out, by "
        "beta x the sum over source subwords of -log(min(attention, 1)); Transformers only",
    )
    max_ratio: float = Field(
        2.0, gt=0, le=1000, description="longest output = max_ratio x source length + max_extra, in subwords"
    )
    max_extra: int = Field(
        50, ge=0, le=100_000, description="see max_ratio; outputs that reach the limit are counted and reported"
    )
    max_source: Annotated[Positive | None, On(python="", heading="Text")] = Field(
        None,
        description="longest line in subwords; a longer one is an error, because time grows with the square of "
        "the length; none: no limit",
    )
    split: Annotated[Split, On(server=True, heading="Text")] = Field(
        "as-trained",
        description="which lines are cut, translated in parts and joined again; as-trained: lines with more "
        "sentences than at least 25 % of the training lines contain, at the ends of sentences; sentences: every "
        "line of several sentences, one sentence at a time; auto: lines longer than the longest training "
        "sentence, at the ends of sentences, else of clauses; huge: only overlong lines, of more than 4,096 "
        "subwords and 8 times the longest training sentence; off: none; every value but off cuts overlong lines",
    )
    complete: Annotated[Complete, On(server=True, heading="Text")] = Field(
        "as-trained",
        description="what happens to a line whose translation leaves out a sentence; warn: a warning lists the "
        "line; mend: posnmt translates the line again, one sentence at a time, and keeps and reports the new "
        "translation if it leaves out less; as-trained: mend, or warn with split off; off: nothing, and only "
        "empty translations are reported",
    )
    min_length: int = Field(
        0, ge=0, le=100_000, description="shortest output in subwords, as far as max_ratio allows it"
    )
    protect: Annotated[Literal["auto", "off"] | list[str], On(heading="Text")] = Field(
        "auto",
        description="text that translations copy unchanged from their lines; auto: placeholders such as {name} "
        "and %s, markup, addresses, paths, code in backquotes, words with characters that the vocabulary lacks, "
        "and lines without letters; a list of regular expressions: also the text that they match; off: nothing",
    )
    allow_unk: bool = Field(False, description="whether translations may contain unknown characters, written as ⁇")
    join: Annotated[int, On(heading="Text")] = Field(
        1,
        ge=1,
        le=1000,
        description="number of consecutive lines that are translated together, each in the context of the "
        "others; at most train.context; an empty line ends a document; 1: each line alone",
    )
    positions: Annotated[Positions, On(cli=False, python="load")] = Field(  # its options are in posnmt.cli.positions
        Positions(), description="changes of positions for long texts, in `translate` and `score`, not on dev"
    )
    sampling: Annotated[Sampling | None, On(flag="--sample", heading="Sampling")] = Field(
        None,
        description="draw translations at random from the model's probabilities instead of searching for the most "
        "probable",
    )
    mbr: int = Field(
        0,
        ge=0,
        le=1000,
        description="number of candidates, from the beam or drawn at random, of which the one most similar to "
        "the others by chrF is taken; 0: take the most probable translation",
    )
    batch: Annotated[Positive | None, On(speed=True, heading="Speed")] = Field(
        None,
        description="most padded source tokens x beam of a batch; affects speed only; null: 4,096, but on a GPU as"
        " many as its memory has MiB, from 4,096 to 65,536",
    )
    precision: Annotated[
        Literal["auto", "fp32", "bf16"],
        On(python="load", server=True, heading="Speed", also={"int8": "like bf16, with CTranslate2 only"}),
    ] = Field(
        "auto",
        description="precision of matrix products in translation; auto: bf16 on a GPU that supports it, else "
        "fp32; fp32: on a GPU in TF32, which multiplies with 10 bits; bf16 is faster on hardware that supports "
        "it, and less exact",
    )
    cuda_graphs: Annotated[bool, On(python="load", speed=True, heading="Speed")] = Field(
        False, description="on a GPU, record the decoder's steps and replay them; Transformers only"
    )

    @field_validator("protect")
    @classmethod
    def _patterns(cls, value: str | list[str]) -> str | list[str]:
        if faults := [fault for fault in map(pattern_fault, [value] if isinstance(value, str) else value) if fault]:
            raise ValueError("; ".join(faults))
        return value


class Config(Section):
    """The whole configuration of a training, as `config.yaml` holds it."""

    format: int = Field(
        FORMAT,
        description="version of the meaning of settings; a configuration that names it is complete: nothing is chosen",
    )
    data: Data = Field(description="the text, and its processing before subwords")
    subword: Subword = Field(Subword(), description="subwords")
    model: Model = Field(Model(), description="the model")
    train: Train = Field(description="the training run")
    decode: Decode = Field(Decode(), description="search")

    @field_validator("format")
    @classmethod
    def _known_format(cls, number: int) -> int:
        if (fault := format_fault(number)) is not None:
            raise ValueError(fault)
        return number

    @model_validator(mode="after")
    def _parts_agree(self) -> Config:
        if self.model.tie_embeddings == "all" and not self.subword.shared:
            raise ValueError("model.tie_embeddings: all needs one vocabulary for both sides: set subword.shared: true")
        if not self.data.has_dev and (self.train.patience is not None or self.train.schedule.type == "plateau"):
            raise ValueError(
                "train.patience and the plateau schedule need a dev corpus: "
                "add data.dev or data.held_out, or leave them out"
            )
        train = self.train
        staged = [number for number, each in enumerate(self.data.corpora) if not each.whole]
        if staged and (train.steps is None) == (train.epochs is None):
            what = f"from and until of data.train.{staged[0]} are shares of the training's updates or passes"
            if train.steps is None:
                raise ValueError(
                    f"{what}, whose number train.minutes alone leaves open: set train.steps or train.epochs"
                )
            raise ValueError(f"{what}: set either train.steps or train.epochs, not both")
        if self.subword.pieces == "extended" and self.subword.text is None:
            raise ValueError("subword.pieces: extended needs the subwords to extend: set subword.text or train.init")
        if self.subword.sampling is not None and self.subword.byte_fallback and self.subword.text is None:
            raise ValueError(
                "subword.sampling draws no segmentations of subwords with bytes: set subword.byte_fallback: false, or "
                "leave sampling out"
            )
        return self
