"""Writes the cases of ONNX's node tests, which the onnx package holds as code, as files:

    OUT/CASE/model.onnx
    OUT/CASE/test_data_set_0/{input,output}_0.pb, …

Models, inputs and expected outputs are what the package's own code makes. A value is written as the proto of its type: a
TensorProto, a SequenceProto or an OptionalProto. The package seeds numpy before each case, so all runs write the same bytes.

usage: make_node_tests.py OUT
"""

import pathlib
import sys
import warnings

import numpy as np
from onnx import TensorProto, numpy_helper
from onnx.backend.test.case import node


def to_proto(value, info):
    """The proto of a case's input or output; info is its ValueInfoProto."""
    kind = info.type.WhichOneof("value")
    if kind == "sequence_type":
        return numpy_helper.from_list(value, info.name)
    if kind == "optional_type":
        return numpy_helper.from_optional(value, info.name)
    if kind != "tensor_type":
        raise TypeError(f"{info.name} is a {kind}, which this tool cannot write")
    if isinstance(value, TensorProto):
        return value
    return numpy_helper.from_array(np.asarray(value), info.name)


def write(path, proto):
    path.write_bytes(proto.SerializeToString(deterministic=True))


def write_values(folder, kind, values, infos):
    for i, (value, info) in enumerate(zip(values, infos, strict=True)):
        write(folder / f"{kind}_{i}.pb", to_proto(value, info))


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    out = pathlib.Path(sys.argv[1])
    # Overflow and division by zero are what some cases are about.
    warnings.simplefilter("ignore", RuntimeWarning)
    for case in node.collect_testcases():
        folder = out / case.name
        folder.mkdir(parents=True)
        write(folder / "model.onnx", case.model)
        for i, (inputs, outputs) in enumerate(case.data_sets):
            data_set = folder / f"test_data_set_{i}"
            data_set.mkdir()
            write_values(data_set, "input", inputs, case.model.graph.input)
            write_values(data_set, "output", outputs, case.model.graph.output)


if __name__ == "__main__":
    main()
