"""Triton's interpreter, in which the kernels are tested on a CPU: whether it is on, and repairs.

numpy has no bf16, so the interpreter (seen in 3.6 and 3.9) keeps the bits in 16-bit integers, which
``tl.dot`` then multiplies as integers, and it cuts where a GPU rounds. It also prepares the
language anew whenever a kernel calls a function, which takes most of the time, makes a table of
types for each operation, and computes whether integers overflow, which nothing looks at. Nothing
here runs on a GPU.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any


def interpreting() -> bool:
    """Return whether Triton runs kernels in its interpreter (``TRITON_INTERPRET=1``)."""
    return os.environ.get("TRITON_INTERPRET", "0").lower() in ("1", "true", "on", "yes", "y")


def repair_interpreter() -> None:
    """Repair bf16 in the interpreter, and let it do what is of use, once.

    bf16 is multiplied as numbers and rounded to nearest, ties to even. Calling it again changes
    nothing.
    """
    import triton.language as tl
    from triton.runtime import interpreter
    from triton.runtime.interpreter import InterpretedFunction, InterpreterBuilder, TensorHandle

    if getattr(InterpreterBuilder, "bfloat16_repaired", False):
        return
    plain_dot, plain_cast = InterpreterBuilder.create_dot, InterpreterBuilder.cast_impl

    def widened(handle: Any) -> Any:
        if handle.dtype.scalar != tl.bfloat16:
            return handle
        return TensorHandle(_from_bfloat16(handle.data), tl.float32)

    def create_dot(self: Any, a: Any, b: Any, *options: Any) -> Any:
        return plain_dot(self, widened(a), widened(b), *options)

    def cast_impl(self: Any, source: Any, dtype: Any) -> Any:
        if source.dtype.scalar == tl.float32 and dtype.scalar == tl.bfloat16:
            return TensorHandle(_to_bfloat16(source.data), tl.bfloat16)
        return plain_cast(self, source, dtype)

    prepared: set[int] = set()

    def call(self: Any, *args: Any, **options: Any) -> Any:
        if id(self.fn.__globals__) not in prepared:
            prepared.add(id(self.fn.__globals__))
            interpreter._patch_lang(self.fn)  # noqa: SLF001  what it does at every call
        return self.rewrite()(*args, **options)

    numpy_types: dict[str, Any] = {}
    make_numpy_type = interpreter._get_np_dtype  # noqa: SLF001

    def numpy_type(dtype: Any) -> Any:
        if dtype.name not in numpy_types:
            numpy_types[dtype.name] = make_numpy_type(dtype)
        return numpy_types[dtype.name]

    # Overflows are for an assertion on the device, which is made with ``debug`` alone.
    options = interpreter.interpreter_builder.options
    if not options.debug:
        interpreter.interpreter_builder.options = replace(options, sanitize_overflow=False)
    interpreter._get_np_dtype = numpy_type  # noqa: SLF001
    InterpretedFunction.__call__ = call
    InterpreterBuilder.create_dot = create_dot
    InterpreterBuilder.cast_impl = cast_impl
    InterpreterBuilder.bfloat16_repaired = True


def _from_bfloat16(data: Any) -> Any:
    return (data.astype("uint32") << 16).view("float32")


def _to_bfloat16(data: Any) -> Any:
    bits = data.astype("float32").view("uint32")
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    rounded[data != data] = 0x7FC0
    return rounded.astype("uint16")
