"""Code of functions that compiled code calls: linked into its callers, and without machine code of its own.

numba optimises the code of each function together with all that it calls, emits machine code for it, and wraps it twice, for
Python and for C. A kernel of a hundred functions is so optimised once for every level of calls: more than half of the time that
a search took to compile. Here only a function that Python calls is optimised and emitted, with all that it calls. The
others are kept as intermediate code.
"""

from __future__ import annotations

from typing import Any

from numba.core import codegen as generation
from numba.core import compiler
from numba.core.codegen import JITCodeLibrary, RuntimeLinker

__all__ = ["BodyCompiler", "EntryCompiler", "rebuild"]

_BODY = "body"
_Result: Any = compiler.CompileResult  # its fields are made of strings, unknown to the type checker


class BodyLibrary(JITCodeLibrary):
    """Intermediate code of a function and of what it calls, simplified by function but not inlined.

    A recursive function is the exception: the linker finds its address at run time, so it has machine code as well.
    """

    emitted = False

    @property
    def codegen(self) -> Any:
        """Target of the function's environment: none without machine code, since nothing reads it there."""
        return self._codegen if self.emitted else _NoEnvironment()

    def finalize(self) -> None:
        """Link the code of what the function calls."""
        if any(name.startswith(RuntimeLinker.PREFIX) for name in self._global_names()):
            self.emitted = True
            super().finalize()  # type: ignore[no-untyped-call]
            return
        self._raise_if_finalized()  # type: ignore[no-untyped-call]
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._end()

    def _global_names(self) -> list[str]:
        modules = [self._final_module, *(library._get_module_for_linking() for library in self._linking_libraries)]
        return [variable.name for module in modules for variable in module.global_variables]

    def _end(self) -> None:
        self._finalize_dynamic_globals()  # type: ignore[no-untyped-call]
        self._verify_declare_only_symbols()  # type: ignore[no-untyped-call]
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Return the address of a function, 0 if it has none."""
        self._ensure_finalized()  # type: ignore[no-untyped-call]
        return super().get_pointer_to_function(name) if self.emitted else 0  # type: ignore[no-untyped-call]

    def serialize_using_object_code(self) -> tuple[str, str, Any]:
        """Return the content of the library for the disk cache."""
        if self.emitted:
            return super().serialize_using_object_code()  # type: ignore[no-untyped-call, no-any-return]
        return self.name, _BODY, self._get_module_for_linking().as_bitcode()  # type: ignore[no-untyped-call]

    @classmethod
    def read(cls, codegen: Any, name: str, bitcode: bytes) -> BodyLibrary:
        """Return a library from the disk cache."""
        library = cls(codegen, name)
        llvm: Any = generation.ll  # type: ignore[attr-defined]
        library._final_module = llvm.parse_bitcode(bitcode)
        library._disable_inspection = True
        library._end()
        return library


class _NoEnvironment:
    """Code generator for functions whose environment is nowhere set."""

    def set_env(self, env_name: str, env: Any) -> None:
        """Do nothing."""


class BodyCompiler(compiler.Compiler):
    """numba's compiler, with a `BodyLibrary` as its result."""

    def compile_extra(self, func: Any) -> Any:
        """Compile a function."""
        self.state.library = BodyLibrary(self.state.targetctx.codegen(), func.__qualname__)  # type: ignore[no-untyped-call]
        self.state.library.enable_object_caching()
        return super().compile_extra(func)  # type: ignore[no-untyped-call]


class EntryCompiler(compiler.Compiler):
    """numba's compiler, for a function that Python calls.

    numba stores the environment of a function, which `print` reads, at the address of the function's own machine code. A body
    has none, so that the environments of all bodies in the code are stored here.
    """

    def compile_extra(self, func: Any) -> Any:
        """Compile a function."""
        result = super().compile_extra(func)  # type: ignore[no-untyped-call]
        for environment in result._find_referenced_environments():
            result.codegen.set_env(environment.env_name, environment)
        return result


def rebuild(target_context: Any, payload: tuple[Any, ...]) -> Any:
    """Return the result of a compilation from its form in the disk cache."""
    (name, kind, content), fndesc, env, signature, objectmode, lifted, typeann, reload_init, referenced_envs = payload
    if kind != _BODY:
        return _Result._rebuild(target_context, *payload)
    for function in reload_init:
        function()
    library = BodyLibrary.read(target_context.codegen(), name, content)
    return _Result(
        target_context=target_context,
        typing_context=target_context.typing_context,
        library=library,
        environment=env,
        entry_point=target_context.get_executable(library, fndesc, env),
        fndesc=fndesc,
        type_annotation=typeann,
        signature=signature,
        objectmode=objectmode,
        lifted=lifted,
        typing_error=None,
        call_helper=None,
        metadata=None,
        reload_init=reload_init,
        referenced_envs=referenced_envs,
    )
