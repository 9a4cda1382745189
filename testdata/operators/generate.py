"""Writes the corpus of small exports, one archive a group of operators.

    /usr/bin/python3 generate.py [GROUP ...]

Made with Debian's python3-torch 1.13, python3-torchvision 0.14 and python3-onnx 1.12. A second run
gives the same bytes.
"""

import os
import sys

import cases_layers as layers
import cases_mixing as mixing
import cases_sequences as sequences
import cases_shapes as shapes
import cases_vision as vision
from export import Group, archive

GROUPS = (layers.activations, layers.norms, layers.pools, layers.convolutions, layers.resizes, layers.compositions, shapes.shapes, shapes.reductions,
          shapes.products, sequences.attention, sequences.tokens, sequences.recurrent, sequences.several,
          sequences.structured, mixing.mixing, vision.vision)


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    for name in sys.argv[1:]:
        if name not in [g.__name__ for g in GROUPS]:
            sys.exit(f"no group is named {name}")
    for add in GROUPS:
        if len(sys.argv) > 1 and add.__name__ not in sys.argv:
            continue
        group = Group()
        add(group)
        path = os.path.join(here, add.__name__ + ".tar.gz")
        archive(path, group.files)
        print(f"{add.__name__}: {group.count} cases, {os.path.getsize(path)} bytes")


if __name__ == "__main__":
    main()
