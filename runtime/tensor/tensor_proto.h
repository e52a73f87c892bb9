// Tensors in ONNX's protobuf form, for readers of whole models. The generated code is "onnx.pb.h".
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/error.h"
#include "runtime/tensor/tensor.h"

namespace low {

namespace onnx {
class TensorProto;
}

// Numbers of ONNX's TensorProto.DataType.
std::optional<DType> dtype_from_onnx(int data_type);
int dtype_to_onnx(DType dtype);
// "FLOAT", "INT4", …; "99 (unknown)" for a number that ONNX does not define.
std::string onnx_data_type_name(int data_type);

// A tensor's bytes that are not in its message.
struct OutsideData {
  std::span<const std::byte> external;  // cut to the offset and length that the message states
  std::span<const std::byte> raw;       // raw_data, where the caller has cut that out
};
// Data from raw_data, from the typed field that the data type prescribes, or, where data_location is EXTERNAL, from
// outside. Errors: unsupported for other
// data types, more than max_rank dimensions and segments; invalid when extents, lengths, fields or values contradict
// each other. `what` names the tensor in messages.
Result<Tensor> tensor_from_proto(const onnx::TensorProto& proto, std::string_view what, const OutsideData& outside);

// Sets dims, data_type and raw_data. The bytes must fit a message: less than 2 GiB.
void tensor_to_proto(const Tensor& tensor, onnx::TensorProto& proto);

}  // namespace low
