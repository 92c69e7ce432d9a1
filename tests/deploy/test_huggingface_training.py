"""Further training of exports with Transformers, Accelerate and PEFT."""

from __future__ import annotations

import pytest
import torch

from posnmt.config.schema import Decode
from posnmt.data.text import TextPipeline
from posnmt.training.loss import TrainingLoss
from tests.support import tiny
from tests.support.untrained import LEARNED

pytest.importorskip("transformers", reason="Transformers are not installed (extra huggingface)")

from transformers import AutoModelForSeq2SeqLM, DataCollatorForSeq2Seq, Seq2SeqTrainer, Seq2SeqTrainingArguments

import posnmt.deploy.huggingface as hf
from posnmt.deploy.huggingface.layers import layers
from tests.support.wrapped import drawn, padded, wrapped


def batch(lengths=(2, 3, 7)):
    """Sources and labels."""
    rows = padded(drawn(lengths))
    return {**padded(drawn()), "labels": rows["input_ids"].masked_fill(rows["attention_mask"] == 0, -100)}


def forced():
    """Sources, and targets whose logits are compared."""
    return {**padded(drawn()), "decoder_input_ids": torch.tensor([[2, 5, 6, 7]] * 3)}


@pytest.mark.parametrize("tied", ["none", "target", "all"])
@pytest.mark.parametrize("system", ["relative", "rnn-nmt"])
@pytest.mark.parametrize("size", [tiny.VOCABULARY + 3, tiny.VOCABULARY - 2])
def test_resizing_changes_no_other_word(system, tied, size, tmp_path):
    other = wrapped(tiny.build(system=system, tie_embeddings=tied), Decode())
    common = min(size, tiny.VOCABULARY)
    inputs = {name: ids.clamp(max=common - 1) for name, ids in forced().items()}
    before = other(**inputs).logits
    embedding = other.resize_token_embeddings(size)
    assert embedding is other.get_input_embeddings()
    assert embedding.weight.shape == other.get_output_embeddings().weight.shape == (size, 16)
    assert (other.config.vocab_size, other.config.source_vocab_size) == (size, size)
    after = other(**inputs).logits
    assert after.shape[-1] == size
    torch.testing.assert_close(after[..., :common], before[..., :common])
    side = lambda name: getattr(getattr(other.model, name), "table", getattr(other.model, name))  # noqa: E731
    assert (other.model.output.weight is side("target").weight) == (tied != "none")
    assert (side("source") is side("target")) == (tied == "all")
    other.float().save_pretrained(tmp_path)
    again = hf.PosnmtForConditionalGeneration.from_pretrained(tmp_path)
    torch.testing.assert_close(again(**inputs).logits, other(**inputs).logits)


def test_a_size_can_be_rounded_up_and_without_one_nothing_changes():
    other = wrapped(tiny.build(system="relative"), Decode())
    assert other.resize_token_embeddings().num_embeddings == tiny.VOCABULARY
    assert other.resize_token_embeddings(pad_to_multiple_of=64, mean_resizing=False).num_embeddings == 64
    assert other(**forced()).logits.shape[-1] == 64


def test_one_size_for_vocabularies_of_two_sizes_is_refused():
    part = tiny.settings(system="relative").model_dump(mode="json")
    other = hf.PosnmtForConditionalGeneration(hf.PosnmtConfig(posnmt=part, source_vocab_size=20, vocab_size=30))
    with pytest.raises(ValueError, match="20 and 30 subwords"):
        other.resize_token_embeddings(40)
    shared = wrapped(tiny.build(**tiny.MODELS["shared-private"]), Decode())
    with pytest.raises(ValueError, match="shared-private are computed"):
        shared.resize_token_embeddings(40)


@pytest.mark.parametrize("tied", ["none", "target", "all"])
def test_embeddings_can_be_replaced(tied):
    """As by one that gives every word another vector: then the output is that of other words."""
    other = wrapped(tiny.build(system="relative", tie_embeddings=tied), Decode())
    old = other.get_input_embeddings()
    new = torch.nn.Embedding.from_pretrained(old.weight.detach().flip(0))
    other.set_input_embeddings(new)
    assert other.model.source.table is new
    assert (other.model.target.table is new) == (other.model.output.weight is new.weight) == (tied == "all")
    projection = torch.nn.Linear(16, tiny.VOCABULARY).double()
    other.set_output_embeddings(projection)
    assert other.get_output_embeddings() is projection
    hidden = other.model(*_source(), forced()["decoder_input_ids"])
    torch.testing.assert_close(other(**forced()).logits, projection(hidden))


def _source():
    rows = padded(drawn())
    return rows["input_ids"], rows["attention_mask"].sum(1)


def tokenizer_of(text, folder):
    text.save(folder)
    return hf.PosnmtTokenizer(str(folder / "text.json"))


def test_added_tokens_are_read_written_and_saved(tmp_path):
    tokenizer = tokenizer_of(TextPipeline.load(LEARNED / "text"), tmp_path / "text")
    size = len(tokenizer)
    assert size == tokenizer.text.source.size
    plain = tokenizer("uns mebu")["input_ids"]
    assert tokenizer.add_tokens(["<2de>", "<2d", "uns"]) == 2 + ("uns" not in tokenizer.text.source.subwords.pieces)
    assert tokenizer.add_tokens(["<2fr>"], special_tokens=True) == 1
    added = tokenizer.convert_tokens_to_ids(["<2de>", "<2d", "<2fr>"])
    assert added[:2] == [size, size + 1]
    assert added[2] == len(tokenizer) - 1
    read = tokenizer("<2de>mebu <2d <2fr>")["input_ids"]
    assert [token for token in read if token >= size] == added
    assert tokenizer("mebu")["input_ids"][:-1] == [token for token in read if 4 <= token < size]
    word = tokenizer(text_target="kurikar")["input_ids"][:-1]
    row = [2, added[0], *word, added[2], 3]
    assert tokenizer.decode(row) == "<s> <2de> kurikar <2fr> </s>"
    assert tokenizer.decode(row, skip_special_tokens=True) == "<2de> kurikar"
    assert tokenizer.convert_tokens_to_string(tokenizer.convert_ids_to_tokens(row[1:-2])) == "<2de> kurikar"
    with pytest.raises(ValueError, match=f"token {len(tokenizer)} has no text"):
        tokenizer.decode([len(tokenizer)])
    tokenizer.save_pretrained(tmp_path / "saved")
    again = hf.PosnmtTokenizer.from_pretrained(tmp_path / "saved")
    assert len(again) == len(tokenizer)
    assert again("<2de>mebu <2d <2fr>")["input_ids"] == read
    assert again.decode(row) == tokenizer.decode(row)
    assert again("mebu")["input_ids"] == tokenizer("mebu")["input_ids"]
    assert len(plain) > 1


def test_vocabularies_of_their_own_get_no_tokens(tmp_path):
    TextPipeline.load(LEARNED / "text").save(tmp_path)
    path = tmp_path / "text.json"
    path.write_text(path.read_text().replace('"shared": true', '"shared": false'))
    tokenizer = hf.PosnmtTokenizer(str(path))
    with pytest.raises(ValueError, match="vocabularies of their own"):
        tokenizer.add_tokens("<2de>")
    assert tokenizer.add_tokens(tokenizer.text.source.subwords.pieces[9]) == 0


@pytest.mark.parametrize("name", tiny.each_of(tiny.TRANSFORMERS))
def test_recomputed_layers_have_the_same_gradients(name):
    """With dropout, reentrant and not; and no layer is computed once only."""
    part = {**tiny.MODELS[name], "dropout": 0.3, "attention_dropout": 0.2}
    other = wrapped(tiny.build(**part), Decode()).train()

    def gradients():
        torch.manual_seed(1)
        other.zero_grad()
        loss = other(**batch()).loss
        loss.backward()
        return loss.item(), {name: weight.grad.clone() for name, weight in other.named_parameters()}

    wanted, calls = gradients(), []
    for layer in layers(other.model):
        layer.feed_forward.register_forward_hook(lambda *_: calls.append(1))
    for reentrant in (False, True):
        other.gradient_checkpointing_enable({"use_reentrant": reentrant})
        loss, found = gradients()
        assert loss == pytest.approx(wanted[0], rel=1e-12)
        torch.testing.assert_close(found, wanted[1])
    assert len(calls) == 2 * 2 * len(layers(other.model))
    other.gradient_checkpointing_disable()
    calls.clear()
    gradients()
    assert len(calls) == len(layers(other.model))


def test_where_layers_are_recomputed_there_is_no_cache_in_training_but_in_search():
    other = wrapped(tiny.build(system="rr"), Decode(beam=2))
    wanted = other.generate(**padded(drawn()))
    other.gradient_checkpointing_enable()
    other.train()
    with pytest.raises(ValueError, match="no cache in training"):
        other(**forced(), use_cache=True)
    assert torch.equal(other.generate(**padded(drawn())), wanted)


@pytest.mark.parametrize("name", ["rnn-nmt", "convs2s"])
def test_other_architectures_recompute_nothing(name):
    with pytest.raises(ValueError, match="does not support"):
        wrapped(tiny.build(system=name), Decode()).gradient_checkpointing_enable()


def lora(other, **options):
    peft = pytest.importorskip("peft", reason="PEFT is not installed (extra peers)")
    return peft.get_peft_model(other, peft.LoraConfig(target_modules="all-linear", r=2, **options))


@pytest.mark.parametrize("name", tiny.each_of([name for name in tiny.MODELS if not name.startswith("convs2s")]))
def test_adapters_train_and_merge(name, tmp_path):
    """LoRA on all linear layers: each adapter gets a gradient, and the merged model has the same outputs."""
    other = wrapped(tiny.build(**tiny.MODELS[name]), Decode())
    before = other(**forced()).logits
    adapted = lora(other, init_lora_weights=False).double().train()
    adapted(**batch()).loss.backward()
    trained = {name: weight.grad for name, weight in adapted.named_parameters() if weight.requires_grad}
    assert all("lora_" in name for name in trained)
    assert [name for name, gradient in trained.items() if gradient is None or not gradient.any()] == []
    torch.optim.SGD(adapted.parameters(), lr=0.1).step()
    wanted = adapted.eval()(**forced()).logits
    assert not torch.allclose(wanted, before, atol=1e-3)
    merged = adapted.merge_and_unload()
    torch.testing.assert_close(merged(**forced()).logits, wanted)


def test_convolutions_have_no_layer_for_adapters():
    with pytest.raises(ValueError, match="target_modules"):
        lora(wrapped(tiny.build(system="convs2s"), Decode()))


def test_adapters_and_merged_models_are_saved_and_loaded(tmp_path):
    peft = pytest.importorskip("peft", reason="PEFT is not installed (extra peers)")
    wrapped(tiny.build(system="mpr-head"), Decode()).float().save_pretrained(tmp_path / "base")
    other = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "base")
    adapted = lora(other, init_lora_weights=False, task_type="SEQ_2_SEQ_LM")
    wanted = adapted(**forced()).logits
    searched = adapted.generate(**padded(drawn()))
    adapted.save_pretrained(tmp_path / "adapter")
    base = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "base")
    again = peft.PeftModel.from_pretrained(base, tmp_path / "adapter")
    torch.testing.assert_close(again(**forced()).logits, wanted)
    assert torch.equal(again.generate(**padded(drawn())), searched)
    again.merge_and_unload().save_pretrained(tmp_path / "merged")
    merged = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "merged")
    torch.testing.assert_close(merged(**forced()).logits, wanted, rtol=1e-4, atol=1e-5)


def test_adapters_train_where_layers_are_recomputed():
    adapted = lora(wrapped(tiny.build(system="rope"), Decode()), init_lora_weights=False).train()

    def gradients():
        adapted.zero_grad()
        adapted(**batch()).loss.backward()
        return {name: weight.grad.clone() for name, weight in adapted.named_parameters() if weight.requires_grad}

    wanted = gradients()
    adapted.gradient_checkpointing_enable()
    torch.testing.assert_close(gradients(), wanted)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("parts", [1, 4])
def test_a_trainer_minimises_posnmts_loss(smoothing, parts, tmp_path):
    """However a batch of 4 pairs of different lengths is divided: its loss, and the weights after one step."""
    pytest.importorskip("accelerate", reason="Accelerate is not installed (extra peers)")
    model = tiny.build(system="relative").float()
    text = TextPipeline.load(LEARNED / "text")
    sources, targets = drawn((3, 1, 6, 2)), drawn((2, 8, 1, 4))
    rows = [{"input_ids": [*x, 3], "labels": [*y, 3]} for x, y in zip(sources, targets, strict=True)]
    other = wrapped(model, Decode()).float()
    trainer = Seq2SeqTrainer(
        other,
        Seq2SeqTrainingArguments(
            str(tmp_path / "out"), per_device_train_batch_size=4 // parts, gradient_accumulation_steps=parts,
            max_steps=1, learning_rate=0.5, optim="sgd", max_grad_norm=0, lr_scheduler_type="constant", logging_steps=1,
            label_smoothing_factor=smoothing, save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True,
        ),
        train_dataset=rows,
        data_collator=DataCollatorForSeq2Seq(tokenizer_of(text, tmp_path / "text"), other),
    )  # fmt: skip
    trainer.train()
    given, wanted = padded(sources), padded(targets)
    target = torch.nn.functional.pad(wanted["input_ids"][:, :-1], (1, 0), value=2)
    target[target == 3] = 0
    loss, _ = TrainingLoss(model, smoothing)(
        given["input_ids"], given["attention_mask"].sum(1), target, wanted["input_ids"]
    )
    loss = loss / int(wanted["attention_mask"].sum())
    assert trainer.state.log_history[0]["loss"] == pytest.approx(loss.item(), abs=1e-4)
    loss.backward()
    torch.optim.SGD(model.parameters(), lr=0.5).step()
    for name, weight in model.named_parameters():
        torch.testing.assert_close(other.model.get_parameter(name), weight, rtol=1e-4, atol=1e-5)


def test_a_trainer_evaluates_by_search(tmp_path):
    pytest.importorskip("accelerate", reason="Accelerate is not installed (extra peers)")
    other = wrapped(tiny.build(system="relative").float(), Decode(beam=2, max_extra=2)).float()
    rows = [{"input_ids": [*x, 3], "labels": [*x, 3]} for x in drawn((3, 5))]
    options = {"predict_with_generate": True, "report_to": [], "use_cpu": True, "disable_tqdm": True}
    trainer = Seq2SeqTrainer(
        other,
        Seq2SeqTrainingArguments(str(tmp_path / "out"), **options),
        data_collator=DataCollatorForSeq2Seq(
            tokenizer_of(TextPipeline.load(LEARNED / "text"), tmp_path / "text"), other
        ),
    )
    found = trainer.predict(rows)
    wanted = other.generate(**padded(drawn((3, 5))))
    assert torch.equal(torch.tensor(found.predictions)[:, : wanted.shape[1]], wanted)
    assert found.metrics["test_loss"] > 0
