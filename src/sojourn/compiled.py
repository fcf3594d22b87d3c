"""The only module that imports numba: hot loops are plain functions under `@compiled`, cached on disk, without the GIL.

numba's own cache watches the file of the compiled function only, not the files of the functions inlined into it. Ours
lives in a folder named after the source of all files with compiled code, so a changed package never runs old code.
"""

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from llvmlite import ir
from numba.core.errors import NumbaError
from numba.core.options import DefaultOptions
from numba.extending import intrinsic

from sojourn.errors import InvalidInput

Function = TypeVar("Function", bound=Callable[..., Any])

# Sums may be reordered (so that they run in vector registers), but NaN and infinity keep their meaning.
REORDER = {"reassoc", "contract", "nsz"}
_UNCOUNTED = {"_nrt": False} if hasattr(DefaultOptions, "_nrt") else {}  # see `bare`


def _cache_folder() -> str:
    package = Path(__file__).parent
    sources = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        text = path.read_bytes()
        if b"sojourn.compiled" in text:  # only files with compiled code
            sources.update(text)
    folder = package / "__pycache__" / f"kernels-{sources.hexdigest()[:16]}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:  # an installation that may not be written to: numba falls back to the user's cache folder
        return str(numba.config.CACHE_DIR)
    for old in folder.parent.glob("kernels-*"):
        if old != folder:
            shutil.rmtree(old, ignore_errors=True)
    return str(folder)


_FOLDER = _cache_folder()


def cold(name: str) -> bool:
    """Whether the function of this name has yet to be compiled, which takes some seconds once."""
    return not any(Path(_FOLDER).rglob(f"*{name}*.nbi"))


def _compile(function: Function, **options: Any) -> Function:
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = _FOLDER
    try:
        return cast(Function, numba.njit(cache=True, nogil=True, error_model="numpy", **options)(function))
    finally:
        numba.config.CACHE_DIR = before


def compiled(function: Function) -> Function:
    """Compile `function` with strict floating point."""
    return _compile(function)


def compiled_sum(function: Function) -> Function:
    """Compile `function`, letting the compiler reorder sums."""
    return _compile(function, fastmath=REORDER)


def inlined(function: Function) -> Function:
    """Compile `function` as a piece that is copied into each compiled caller."""
    return cast(Function, numba.njit(inline="always", nogil=True, error_model="numpy")(function))


def bare(function: Function) -> Function:
    """Compile `function` without reference counts: it may not create arrays, and calling it costs almost nothing.

    numba counts references to every array in the tuples that are passed. That makes a call too expensive for a
    simulator which makes ten calls per step: an event with 100 clients takes 71 ns without counting and 345 ns with it.
    numba has no public option for this. A numba without the private option counts references, and gives the same
    results.
    """
    return _compile(function, **_UNCOUNTED)


def hot(function: Function) -> Function:
    """Compile like `bare`, and merge the function into its compiled callers: for the few functions that every step
    uses.
    """
    return _compile(function, **_UNCOUNTED, forceinline=True)


@intrinsic  # type: ignore[untyped-decorator]
def lesser(_: Any, high: Any, low: Any, other_high: Any, other_low: Any) -> Any:
    """Return the lesser of two pairs of non-negative integers, in the order of tuples, without a branch.

    From two comparisons the compiler makes a branch, which is slow where the outcome is random; from one comparison of
    128-bit numbers it does not.
    """
    wide, half = ir.IntType(128), ir.IntType(64)

    def generate(context: Any, build: Any, signature: Any, words: Any) -> Any:
        shift = ir.Constant(wide, 64)
        pairs = [
            build.or_(build.shl(build.zext(first, wide), shift), build.zext(second, wide))
            for first, second in (words[:2], words[2:])
        ]
        found = build.select(build.icmp_unsigned("<", *pairs), *pairs)
        parts = [build.trunc(build.lshr(found, shift), half), build.trunc(found, half)]
        return context.make_tuple(build, signature.return_type, parts)

    integer = numba.types.int64
    return numba.types.UniTuple(integer, 2)(integer, integer, integer, integer), generate


# The C signature of a user's own draw: double draw(const double *numbers, int64 size, uint64 *key).
_DRAW = numba.types.float64(
    numba.types.CPointer(numba.types.float64), numba.types.int64, numba.types.CPointer(numba.types.uint64)
)
_made: dict[Any, tuple[int, Any]] = {}  # keeps functions whose address is in use from being collected


def _compiled_as(what: str, function: Any, arguments: tuple[Any, ...], result: Any, rule: str) -> Any:
    """Compile a user's function for these arguments; where that fails, raise an error of one sentence."""
    inner = function if hasattr(function, "py_func") else numba.njit(nogil=True, error_model="numpy")(function)
    try:
        inner.compile(arguments)
    except NumbaError as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        reason = next((line for line in lines if not line.startswith("Failed in")), "")
        raise InvalidInput(f"{what} cannot be compiled: {reason[:200]}; it must be {rule}") from error
    found = inner.overloads[arguments].signature.return_type
    if found != result and not (isinstance(found, numba.types.BaseTuple) and tuple(found) == tuple(result)):
        raise InvalidInput(f"{what} must return {result}, got {found}; it must be {rule}")
    return inner


def draw_address(name: str, function: Any) -> int:
    """Return the address of a law's compiled draw, `(numbers, key) -> (duration, next key)`."""
    if function not in _made:
        number, key = numba.types.float64, numba.types.uint64
        inner = _compiled_as(
            f"law {name}: compiled_draw",
            function,
            (numba.types.Array(number, 1, "C"), key),
            numba.types.Tuple((number, key)),
            "(numbers: array, key: uint64) -> (float, uint64) in what numba can compile",
        )

        @numba.cfunc(_DRAW, nopython=True, error_model="numpy")  # type: ignore[untyped-decorator]
        def outer(numbers: Any, size: Any, key: Any) -> Any:
            x, following = inner(numba.carray(numbers, (size,)), key[0])
            key[0] = following
            return x

        _made[function] = outer.address, outer
    return _made[function][0]


@intrinsic  # type: ignore[untyped-decorator]
def call_draw(_: Any, address: Any, values: Any, first: Any, size: Any, key: Any) -> Any:
    """Call a draw by its address, with `size` numbers of `values` from `first` on; return (duration, next key)."""
    double, word = ir.DoubleType(), ir.IntType(64)

    def generate(context: Any, build: Any, signature: Any, words: Any) -> Any:
        where, numbers, start, count, before = words
        room = numba.core.cgutils.alloca_once_value(build, before)
        data = context.make_array(signature.args[1])(context, build, numbers).data
        kind = ir.FunctionType(double, [double.as_pointer(), word, word.as_pointer()])
        function = build.inttoptr(where, kind.as_pointer())
        x = build.call(function, [build.gep(data, [start]), count, room])
        return context.make_tuple(build, signature.return_type, [x, build.load(room)])

    number, index, bits = numba.types.float64, numba.types.int64, numba.types.uint64
    return numba.types.Tuple((number, bits))(index, values, index, index, bits), generate


# int64 choose(tasks, idle, number of idle, sampling, number of clients,
#              memory, its size, finisher, clock, step, key, prob)
_CHOICE = numba.types.int64(
    numba.types.CPointer(numba.types.int64),
    numba.types.CPointer(numba.types.int64),
    numba.types.int64,
    numba.types.CPointer(numba.types.float64),
    numba.types.int64,
    numba.types.CPointer(numba.types.float64),
    numba.types.int64,
    numba.types.int64,
    numba.types.float64,
    numba.types.int64,
    numba.types.CPointer(numba.types.uint64),
    numba.types.CPointer(numba.types.float64),
)


def choice_address(name: str, function: Any, state: Any) -> int:
    """Return the address of a dispatcher's compiled choice, `(state, finisher, key) -> (client, probability, next
    key)`.
    """
    if function not in _made:
        whole, number, bits = numba.types.int64, numba.types.float64, numba.types.uint64
        inner = _compiled_as(
            f"dispatcher {name}: choose",
            function,
            (numba.typeof(state), whole, bits),
            numba.types.Tuple((whole, number, bits)),
            "(state: State, finisher: int64, key: uint64) -> (int64, float, uint64) in what numba can compile",
        )
        State = type(state)
        array = numba.carray

        @numba.cfunc(_CHOICE, nopython=True, error_model="numpy")  # type: ignore[untyped-decorator]
        def outer(
            tasks: Any,
            idle: Any,
            idlers: Any,
            sampling: Any,
            clients: Any,
            memory: Any,
            size: Any,
            finisher: Any,
            clock: Any,
            step: Any,
            key: Any,
            prob: Any,
        ) -> Any:
            seen = State(
                array(tasks, (clients,)),
                array(idle, (idlers,)),
                array(sampling, (clients,)),
                array(memory, (size,)),
                clock,
                step,
            )
            client, chance, following = inner(seen, finisher, key[0])
            key[0] = following
            prob[0] = chance
            return client

        _made[function] = outer.address, outer
    return _made[function][0]


@intrinsic  # type: ignore[untyped-decorator]
def call_choice(
    _: Any,
    address: Any,
    tasks: Any,
    idle: Any,
    idlers: Any,
    numbers: Any,
    first: Any,
    size: Any,
    finisher: Any,
    clock: Any,
    step: Any,
    key: Any,
) -> Any:
    """Call a choice by its address; `numbers` holds, from `first` on, the sampling of each client
    and then the memory.
    """
    double, word = ir.DoubleType(), ir.IntType(64)

    def generate(context: Any, build: Any, signature: Any, words: Any) -> Any:
        where, tasks, idle, idlers, numbers, first, size, finisher, clock, step, before = words

        def data(place: int, value: Any) -> Any:
            return context.make_array(signature.args[place])(context, build, value)

        room = numba.core.cgutils.alloca_once_value(build, before)
        chance = numba.core.cgutils.alloca_once_value(build, ir.Constant(double, 0.0))
        counts, table = data(1, tasks), data(4, numbers)
        clients = build.extract_value(counts.shape, 0)
        sampling = build.gep(table.data, [first])
        memory = build.gep(sampling, [clients])
        doubles, longs = double.as_pointer(), word.as_pointer()
        kinds = [longs, longs, word, doubles, word, doubles, word, word, double, word, longs, doubles]
        function = build.inttoptr(where, ir.FunctionType(word, kinds).as_pointer())
        given = [counts.data, data(2, idle).data, idlers, sampling, clients, memory, size]
        client = build.call(function, [*given, finisher, clock, step, room, chance])
        return context.make_tuple(build, signature.return_type, [client, build.load(chance), build.load(room)])

    whole, number, bits = numba.types.int64, numba.types.float64, numba.types.uint64
    found = numba.types.Tuple((whole, number, bits))
    return found(whole, tasks, idle, whole, numbers, whole, whole, whole, number, whole, bits), generate
