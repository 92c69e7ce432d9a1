"""posnmt's models, configurations and tokenizers as classes for Hugging Face Transformers.

Importing this package registers them. Then the Auto classes load folders of `posnmt export --format huggingface`:

    import posnmt.deploy.huggingface
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained("mine-hf"), AutoModelForSeq2SeqLM.from_pretrained("mine-hf")
    outputs = model.generate(**tokenizer(["A sentence."], return_tensors="pt", padding=True))
    tokenizer.batch_decode(outputs, skip_special_tokens=True)
"""

from transformers import AutoConfig, AutoModelForSeq2SeqLM, AutoTokenizer

from posnmt.deploy.huggingface.config import PosnmtConfig
from posnmt.deploy.huggingface.model import PosnmtForConditionalGeneration
from posnmt.deploy.huggingface.pipeline import PosnmtTranslationPipeline
from posnmt.deploy.huggingface.tokenizer import PosnmtTokenizer

__all__ = ["PosnmtConfig", "PosnmtForConditionalGeneration", "PosnmtTokenizer", "PosnmtTranslationPipeline"]

AutoConfig.register("posnmt", PosnmtConfig, exist_ok=True)
AutoModelForSeq2SeqLM.register(PosnmtConfig, PosnmtForConditionalGeneration, exist_ok=True)
AutoTokenizer.register(PosnmtConfig, slow_tokenizer_class=PosnmtTokenizer, exist_ok=True)
