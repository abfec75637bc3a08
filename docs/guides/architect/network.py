"""Writes network.onnx, a small keyword spotter: what an export from a training framework would be."""

import onnx
from onnx import TensorProto, helper


def weights(name: str, *shape: int) -> onnx.TensorProto:
    """A parameter without its numbers, which nobody here looks at."""
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape)
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="weights.bin")
    return tensor


def tensor(name: str, *shape: int | str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


nodes = [
    helper.make_node("Conv", ["sound", "w1"], ["a"], name="stem", strides=[2, 2], pads=[1, 1, 1, 1]),
    helper.make_node("Relu", ["a"], ["b"]),
    helper.make_node("Conv", ["b", "w2"], ["c"], name="depthwise", group=64, pads=[1, 1, 1, 1]),
    helper.make_node("Relu", ["c"], ["d"]),
    helper.make_node("Conv", ["d", "w3"], ["e"], name="pointwise"),
    helper.make_node("GlobalAveragePool", ["e"], ["f"]),
    helper.make_node("Flatten", ["f"], ["g"]),
    helper.make_node("Gemm", ["g", "w4"], ["words"], name="classifier", transB=1),
]
parameters = [
    weights("w1", 64, 1, 3, 3),
    weights("w2", 64, 1, 3, 3),
    weights("w3", 64, 64, 1, 1),
    weights("w4", 12, 64),
]
inputs, outputs = [tensor("sound", "batch", 1, 48, 40)], [tensor("words", "batch", 12)]
graph = helper.make_graph(nodes, "spotter", inputs, outputs, parameters)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
with open("network.onnx", "wb") as file:
    file.write(model.SerializeToString())
