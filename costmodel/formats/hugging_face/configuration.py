"""The keys of a ``config.json``: read with the types that they must have, and none left over unread."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from costmodel.errors import InputError, did_you_mean
from costmodel.number_checks import is_whole

_WITHOUT_EFFECT_BY_REASON = (
    # names, versions and what tokenizers and trainers read
    "_name_or_path _attn_implementation_autoset architectures model_type auto_map transformers_version "
    "torchscript use_bfloat16 bos_token_id eos_token_id pad_token_id sep_token_id cls_token_id unk_token_id "
    "decoder_start_token_id begin_suppress_tokens suppress_tokens forced_decoder_ids forced_bos_token_id "
    "forced_eos_token_id bad_words_ids prefix tokenizer_class task_specific_params finetuning_task "
    "id2label label2id problem_type initializer_range initializer_factor init_std attention_dropout "
    "attention_probs_dropout_prob hidden_dropout hidden_dropout_prob dropout activation_dropout "
    "encoder_layerdrop decoder_layerdrop classifier_dropout resid_pdrop embd_pdrop layerdrop "
    "router_aux_loss_coef aux_loss_alpha seq_aux router_jitter_noise output_router_logits "
    "initial_context_length",
    # numbers inside functions whose work is the same for any of them
    "rms_norm_eps layer_norm_eps layer_norm_epsilon norm_eps rope_theta rope_scaling rope_parameters "
    "rope_interleave rope_local_base_freq swiglu_limit swiglu_alpha partial_rotary_factor "
    "query_pre_attn_scalar routed_scaling_factor norm_topk_prob scoring_func topk_method n_group topk_group "
    "max_position_embeddings scale_embedding time_step_limit time_step_rank time_step_floor "
    "time_step_min time_step_max rescale_prenorm_residual residual_in_fp32",
    # how a program runs it
    "use_cache cache_implementation pretraining_tp return_dict output_attentions output_hidden_states "
    "output_past use_mambapy is_decoder is_encoder_decoder chunk_size_feed_forward tie_encoder_decoder "
    "pruned_heads remove_invalid_values return_dict_in_generate add_cross_attention "
    "cross_attention_hidden_size tf_legacy_loss",
    # what generation does with predictions
    "do_sample early_stopping max_length min_length num_beams num_beam_groups diversity_penalty temperature "
    "top_k top_p typical_p repetition_penalty length_penalty no_repeat_ngram_size "
    "encoder_no_repeat_ngram_size num_return_sequences exponential_decay_length_penalty output_scores",
)
_WITHOUT_EFFECT = frozenset(key for keys in _WITHOUT_EFFECT_BY_REASON for key in keys.split())
"""Keys of any architecture that change neither the parameters nor what is computed."""

_MISSING = object()


class Configuration:
    """The object of a ``config.json``, or one inside it; ``where`` is the file.

    Every key that is asked for counts as read; :meth:`finish` refuses what is left.
    """

    def __init__(self, content: Mapping[str, Any], where: str) -> None:
        self._content, self.where = content, where
        self._read: set[str] = set()

    def _get(self, key: str) -> Any:
        self._read.add(key)
        return self._content.get(key, _MISSING)

    def __contains__(self, key: str) -> bool:
        return self._content.get(key) is not None

    def whole(self, key: str, default: int | None = None, least: int = 1) -> int:
        """A whole number; InputError where it is missing (null included) without a default, or none."""
        value = self._get(key)
        if value in (_MISSING, None) and default is not None:
            return default
        if not is_whole(value, least):
            raise self._wrong(key, f"a whole number of at least {least}", value)
        return int(value)

    def maybe(self, key: str) -> int | None:
        """A whole number of at least 1, or None for null and where it is missing."""
        self._read.add(key)
        return self.whole(key) if key in self else None

    def flag(self, key: str, default: bool) -> bool:
        """True or false; ``default`` where it is missing or null."""
        value = self._get(key)
        if value in (_MISSING, None):
            return default
        if not isinstance(value, bool):
            raise self._wrong(key, "true or false", value)
        return value

    def one_of(self, key: str, known: Iterable[str], default: str | None = None) -> str:
        """A word among ``known``; ``default`` where it is missing or null."""
        value, words = self._get(key), list(known)
        if value in (_MISSING, None) and default is not None:
            return default
        if value not in words:
            raise self._wrong(key, f"one of {', '.join(words)}", value, did_you_mean(value, words))
        return str(value)

    def words(self, key: str, known: Iterable[str], count: int) -> list[str] | None:
        """A list of ``count`` words among ``known``; None where it is missing or null."""
        value, words = self._get(key), list(known)
        if value in (_MISSING, None):
            return None
        if not isinstance(value, list) or len(value) != count or any(word not in words for word in value):
            raise self._wrong(key, f"a list of {count}, each one of {', '.join(words)}", value)
        return value

    def must_be(self, key: str, expected: Any, why: str) -> None:
        """Refuse another value than ``expected``, which is also what a missing key means."""
        value = self._get(key)
        if value is not _MISSING and value != expected and value is not None:
            raise self._wrong(key, f"{_json(expected)} ({why})", value)

    def mapping(self, key: str) -> Configuration | None:
        """An object in the object; None where it is missing or null."""
        value = self._get(key)
        if value in (_MISSING, None):
            return None
        if not isinstance(value, dict):
            raise self._wrong(key, "an object", value)
        return Configuration(value, f"{self.where}: {key}")

    def values(self, key: str) -> list[Any]:
        """A list; empty where it is missing or null."""
        value = self._get(key)
        if value in (_MISSING, None):
            return []
        if not isinstance(value, list):
            raise self._wrong(key, "a list", value)
        return value

    def wholes(self, key: str) -> list[int]:
        """A list of whole numbers of at least 1."""
        values = self.values(key)
        if not all(is_whole(value, 1) for value in values):
            raise self._wrong(key, "a list of whole numbers of at least 1", values)
        return values

    def __len__(self) -> int:
        return len(self._content)

    def unread(self, keys: str) -> None:
        """Note keys, with spaces between, that change nothing in this architecture."""
        self._read.update(keys.split())

    def finish(self) -> None:
        """Refuse the first key that is neither read nor known to change nothing."""
        for key in self._content:
            if key not in self._read and key not in _WITHOUT_EFFECT:
                expected = f"keys among {', '.join(sorted(self._read))}, or ones known to change nothing"
                near = did_you_mean(key, self._read, cutoff=0.75)
                remedy = near or "Remove it if it changes neither the parameters nor what is computed"
                raise InputError(self.where, expected, key, remedy, key=key)

    def _wrong(self, key: str, expected: str, found: Any, remedy: str = "") -> InputError:
        shown = "nothing" if found is _MISSING else found
        if found is _MISSING and not remedy:
            remedy = f"Take {key} from the model's published config.json"
        return InputError(self.where, expected, shown, remedy, key=key)


def _json(value: Any) -> str:
    return {True: "true", False: "false"}.get(value, str(value)) if isinstance(value, bool) else str(value)
