"""Build the engine where there is a C++ compiler; elsewhere the runtime computes in NumPy.

RESMLP_MT_ENGINE in the environment names a library that is built: scripts/wheels.py.
"""

import os
import shutil

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

BUILT = os.environ.get("RESMLP_MT_ENGINE")


class BuildLibrary(build_ext):
    """A library for ctypes: it has no Python in it, nor the version of one in its name."""

    def get_ext_filename(self, fullname):
        name = BUILT or ("engine.dll" if os.name == "nt" else "engine.so")
        return os.path.join(*fullname.split(".")) + os.path.splitext(name)[1]

    def build_extension(self, ext):
        if BUILT:
            shutil.copyfile(BUILT, self.get_ext_fullpath(ext.name))
        else:
            super().build_extension(ext)

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
        "-faligned-new",  # clang refuses aligned memory where a Python is built for macOS 10.9
    ],
    extra_link_args=["-pthread"],
    optional=True,
)
setup(ext_modules=[ENGINE], cmdclass={"build_ext": BuildLibrary, "bdist_wheel": AnyPython})
