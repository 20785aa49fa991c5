"""Bytes of an element, numbers of parameters, sizes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkrun.models.vram.dtypes import (
    canonical_dtype,
    dtype_of_method,
    gguf_quant,
    kv_bytes,
    parse_params,
    parse_size,
    safetensors_bytes,
    weight_bytes,
)


@pytest.mark.parametrize(
    ("dtypes", "size"),
    [
        ("float32 fp32 F32", 4),
        ("float16 bfloat16 fp16 bf16 torch.bfloat16", 2),
        ("int8 fp8 fp8_e4m3 fp8_e5m2 mxfp8 awq8", 1),
        ("int4 awq awq4 gptq fp4 mxfp4 nvfp4 w4a16_awq W4A16", 0.5),
        ("q4_0 q4_k q4_k_m q4_k_s Q4_K_M UD-Q4_K_XL iq4_nl iq4_xs", 0.5625),
        ("q4_1", 0.625),
        ("q5_0 q5_k q5_k_m", 0.6875),
        ("q5_1", 0.75),
        ("q8_0 q8_k", 1.0625),
        ("q8_1", 1.125),
        ("q2_k q2_k_s iq2_xs iq2_s tq2_0", 0.3125),
        ("q3_k q3_k_l iq3_s", 0.4375),
        ("q6_k", 0.8125),
        ("iq1_s iq1_m tq1_0", 0.1875),
        ("iq2_xxs", 0.25),
        ("iq3_xxs", 0.4063),
        ("exl2:4.5 exl3:4.5", 0.5625),
    ],
)
def test_every_dtype_has_its_bytes(dtypes: str, size: float) -> None:
    assert {dtype: weight_bytes(dtype) for dtype in dtypes.split()} == dict.fromkeys(dtypes.split(), size)


@pytest.mark.parametrize("dtype", ["int4-int8mix", "", "q9_9", "exl2:", "fp8_ds_mla"])
def test_a_dtype_that_nobody_knows_has_no_bytes(dtype: str) -> None:
    assert weight_bytes(dtype) is None


def test_a_kv_cache_of_nvfp4_holds_its_scales_too() -> None:
    assert kv_bytes("nvfp4") == 0.5625
    assert kv_bytes("fp8_e5m2") == 1
    assert kv_bytes("fp8_ds_mla") is None


@pytest.mark.parametrize(("kind", "size"), [("F64", 8), ("I32", 4), ("BF16", 2), ("F8_E4M3", 1), ("F8_E8M0", 1), ("U8", 1), ("NEW", 2)])
def test_safetensors_types_have_their_bytes(kind: str, size: int) -> None:
    assert safetensors_bytes(kind) == size


@pytest.mark.parametrize(
    ("method", "bits", "dtype"),
    [
        ("awq", None, "awq"),
        ("awq", 8, "int8"),
        ("gptq_marlin", None, "gptq"),
        ("GPTQ", 4, "int4"),
        ("fp8", None, "fp8"),
        ("NVFP4", None, "nvfp4"),
        ("mxfp4", None, "mxfp4"),
        ("bitsandbytes", None, "int4"),
        ("auto-round", 2, "exl3:2"),
        ("compressed-tensors", None, None),
        ("compressed-tensors", 4, "int4"),
        ("modelopt", None, None),
        ("modelopt", 4, "int4"),
        ("gguf", None, None),
    ],
)
def test_a_method_makes_a_dtype(method: str, bits: float | None, dtype: str | None) -> None:
    assert dtype_of_method(method, bits) == dtype


@pytest.mark.parametrize(
    ("text", "params"),
    [
        ("7B", 7e9),
        ("1.5T", 1.5e12),
        ("1.7b", 1.7e9),
        (8e9, 8e9),
        ("34_372_770_104", 34372770104),
        ("470e9", 470e9),
        (470, 470),
        ("500M", 5e8),
        ("lots", None),
        (True, None),
        ("0B", None),
        ("-7B", None),
        (None, None),
        ("B", None),
        ("nan", None),
    ],
)
def test_parameters_are_read_as_people_write_them(text: str | float | None, params: float | None) -> None:
    assert parse_params(text) == params


@pytest.mark.parametrize(
    ("value", "size"),
    [
        (32768, 32768),
        ("32K", 32768),
        ("32k", 32000),
        ("40G", 40 * 1024**3),
        ("auto", None),
        (0, None),
        (-1, None),
        (None, None),
        (True, None),
    ],
)
def test_sizes_are_read_as_engines_read_them(value: str | int | None, size: int | None) -> None:
    assert parse_size(value) == size


@pytest.mark.parametrize(
    ("name", "quant"),
    [
        ("m-Q4_K_M.gguf", "q4_k"),
        ("Q8_0", "q8_0"),
        ("m.BF16.gguf", "bfloat16"),
        ("UD-Q2_K_XL/m-UD-Q2_K_XL-00001-of-00002.gguf", "q2_k"),
        ("m", None),
    ],
)
def test_the_name_of_a_gguf_file_tells_its_quantisation(name: str, quant: str | None) -> None:
    assert gguf_quant(name) == quant


@given(st.text())
def test_a_canonical_dtype_stays_as_it_is(text: str) -> None:
    once = canonical_dtype(text)
    assert weight_bytes(once) == weight_bytes(text)
