"""Build the engine where there is a C++ compiler; elsewhere the runtime computes in NumPy."""

import os

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext


class BuildLibrary(build_ext):
    """A library for ctypes: it has no Python in it, nor the version of one in its name."""

    def get_ext_filename(self, fullname):
        return os.path.join(*fullname.split(".")) + (".dll" if os.name == "nt" else ".so")

    def get_export_symbols(self, ext):
        return ext.export_symbols

    def get_libraries(self, ext):
        return ext.libraries


class AnyPython(bdist_wheel):
    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


ENGINE = Extension(
    "resmlp_mt_runtime.libresmlp_mt_engine",
    ["engine/engine.cpp"],
    depends=["engine/products.h"],
    language="c++",
    # comparisons in loops may be made without branches; sums stay in their order
    extra_compile_args=[
        *("-std=gnu++17", "-O3", "-g0", "-Wno-psabi"),
        *("-fno-math-errno", "-fno-trapping-math"),
    ],
    extra_link_args=["-pthread"],
    optional=True,
)
setup(ext_modules=[ENGINE], cmdclass={"build_ext": BuildLibrary, "bdist_wheel": AnyPython})
