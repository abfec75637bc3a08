"""Named tuples reach compiled functions by reference: as the address of a structure of their fields.

By itself numba takes a tuple apart at every call, into one argument for every number of every array's header.
The tables of a search are a hundred arrays in nested named tuples, so each helper began with a thousand
arguments, and translating and optimizing these took most of the time that compiling took. Here
the Python caller's tuple becomes one structure, in the frame of the call, and helpers hand on its address;
reading a field loads it. Compiled functions cannot make such tuples or change their fields, only what the
fields' arrays hold.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numba.core.cgutils
import numba.extending
from llvmlite import ir
from numba.core import types
from numba.core.datamodel.models import PrimitiveModel
from numba.core.typing.templates import AttributeTemplate

cgutils: Any = numba.core.cgutils  # numba has no types
extending: Any = numba.extending

ENTRY = "is_entry"
"""The attribute of a module of code in translation that holds a function which Python calls."""


class Reference(types.Type):
    """The type of a named tuple's address: the tuple's class, and the types of its fields by name."""

    def __init__(self, record: type, fields: tuple[tuple[str, Any], ...]) -> None:
        self.record, self.fields = record, fields
        inside = ", ".join(f"{name}: {kind}" for name, kind in fields)
        whole = f"{record.__module__}.{record.__qualname__}({inside})"
        # the name is a part of every symbol; written out, it would be most of the code that is compiled
        super().__init__(name=f"{record.__qualname__}_{hashlib.sha256(whole.encode()).hexdigest()[:12]}")

    @property
    def key(self) -> str:
        """What tells types apart: numba hashes it a million times, and a string keeps its hash."""
        return self.name

    def position(self, name: str) -> int:
        """Which field has the ``name``; -1 if none has."""
        return next((number for number, (field, _) in enumerate(self.fields) if field == name), -1)


def reference_of(value: Any, typed: Any) -> Any:
    """The type of a Python ``value`` as an argument: a :class:`Reference` for named tuples.

    ``typed`` is the type that numba gives other values.
    """
    if not (isinstance(value, tuple) and hasattr(value, "_fields")):
        return typed(value)
    fields = zip(value._fields, value, strict=True)
    return Reference(type(value), tuple((name, reference_of(field, typed)) for name, field in fields))


def _structure(context: Any, kind: Any) -> Any:
    """The type in memory: fields one after the other, those of a tuple in the tuple as a structure inside."""
    if isinstance(kind, Reference):
        return ir.LiteralStructType([_structure(context, field) for _, field in kind.fields])
    return context.lookup(kind).get_value_type()


@extending.register_model(Reference)
class _ReferenceModel(PrimitiveModel):
    """An address, also as an argument."""

    def __init__(self, manager: Any, kind: Reference) -> None:
        super().__init__(manager, kind, _structure(manager, kind).as_pointer())  # type: ignore[no-untyped-call]

    def from_argument(self, builder: Any, value: Any) -> Any:
        """The address itself in helpers, and in functions that Python calls that of a copy.

        The optimizer takes the copy apart into registers, which no store into an array can change: it reads a
        field once and not in every loop. A helper that stays a function of its own is promised that no array
        overlaps the structure.
        """
        if not getattr(builder.module, ENTRY, False):
            if "alwaysinline" not in builder.function.attributes:
                value.add_attribute("noalias")
            return value
        copy = cgutils.alloca_once(builder, value.type.pointee)
        _copy_fields(builder, value, copy, value.type.pointee)
        return copy


def _copy_fields(builder: Any, source: Any, target: Any, structure: Any) -> None:
    """Copy every number of a structure by itself, which the optimizer sees through better than a whole."""
    for number, kind in enumerate(structure.elements):
        read, written = (cgutils.gep_inbounds(builder, address, 0, number) for address in (source, target))
        if isinstance(kind, (ir.LiteralStructType, ir.ArrayType)):
            _copy_fields(builder, read, written, kind)
        else:
            builder.store(builder.load(read), written)


@extending.infer_getattr
class _FieldTypes(AttributeTemplate):
    key = Reference

    def generic_resolve(self, reference: Reference, name: str) -> Any:  # type: ignore[override]
        number = reference.position(name)
        return None if number < 0 else reference.fields[number][1]


@extending.lower_getattr_generic(Reference)  # type: ignore[untyped-decorator]
def _read_field(context: Any, builder: Any, reference: Reference, address: Any, name: str) -> Any:
    number = reference.position(name)
    field = cgutils.gep_inbounds(builder, address, 0, number)
    return field if isinstance(reference.fields[number][1], Reference) else builder.load(field)


@extending.unbox(Reference)  # type: ignore[untyped-decorator]
def _from_python(reference: Reference, value: Any, c: Any) -> Any:
    """The structure of a Python tuple's fields, in the frame of the function that Python calls."""
    structure = _structure(c.context.data_model_manager, reference)
    address = cgutils.alloca_once(c.builder, structure)
    failed = cgutils.alloca_once_value(c.builder, cgutils.false_bit)
    _store_fields(reference, value, address, failed, c)
    return extending.NativeValue(address, is_error=c.builder.load(failed))


def _store_fields(reference: Reference, value: Any, address: Any, failed: Any, c: Any) -> None:
    for number, (_, kind) in enumerate(reference.fields):
        item, field = (
            c.pyapi.tuple_getitem(value, number),
            cgutils.gep_inbounds(c.builder, address, 0, number),
        )
        if isinstance(kind, Reference):
            _store_fields(kind, item, field, failed, c)
            continue
        native = c.unbox(kind, item)
        assert native.cleanup is None, f"{reference}: a {kind} would have to be given back"
        c.builder.store(native.value, field)
        with c.builder.if_then(native.is_error, likely=False):
            c.builder.store(cgutils.true_bit, failed)
