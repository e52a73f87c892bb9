#include "runtime/tensor/tensor_proto.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "onnx.pb.h"
#include "runtime/tensor/tensor_file.h"

namespace low {
namespace {

using onnx::TensorProto;

struct DataType {
  int number;
  std::string_view name;
  std::optional<DType> dtype;
};

constexpr DataType data_types[] = {
    {TensorProto::UNDEFINED, "UNDEFINED", std::nullopt},
    {TensorProto::FLOAT, "FLOAT", DType::f32},
    {TensorProto::UINT8, "UINT8", DType::u8},
    {TensorProto::INT8, "INT8", DType::i8},
    {TensorProto::UINT16, "UINT16", DType::u16},
    {TensorProto::INT16, "INT16", DType::i16},
    {TensorProto::INT32, "INT32", DType::i32},
    {TensorProto::INT64, "INT64", DType::i64},
    {TensorProto::STRING, "STRING", std::nullopt},
    {TensorProto::BOOL, "BOOL", DType::boolean},
    {TensorProto::FLOAT16, "FLOAT16", DType::f16},
    {TensorProto::DOUBLE, "DOUBLE", DType::f64},
    {TensorProto::UINT32, "UINT32", DType::u32},
    {TensorProto::UINT64, "UINT64", DType::u64},
    {TensorProto::COMPLEX64, "COMPLEX64", std::nullopt},
    {TensorProto::COMPLEX128, "COMPLEX128", std::nullopt},
    {TensorProto::BFLOAT16, "BFLOAT16", DType::bf16},
    {TensorProto::FLOAT8E4M3FN, "FLOAT8E4M3FN", DType::f8e4m3fn},
    {TensorProto::FLOAT8E4M3FNUZ, "FLOAT8E4M3FNUZ", DType::f8e4m3fnuz},
    {TensorProto::FLOAT8E5M2, "FLOAT8E5M2", DType::f8e5m2},
    {TensorProto::FLOAT8E5M2FNUZ, "FLOAT8E5M2FNUZ", DType::f8e5m2fnuz},
    {TensorProto::UINT4, "UINT4", std::nullopt},
    {TensorProto::INT4, "INT4", std::nullopt},
    {TensorProto::FLOAT4E2M1, "FLOAT4E2M1", std::nullopt},
    {TensorProto::FLOAT8E8M0, "FLOAT8E8M0", std::nullopt},
    {TensorProto::UINT2, "UINT2", std::nullopt},
    {TensorProto::INT2, "INT2", std::nullopt},
    {TensorProto::FLOAT6E2M3, "FLOAT6E2M3", std::nullopt},
    {TensorProto::FLOAT6E3M2, "FLOAT6E3M2", std::nullopt},
};

const DataType* find_data_type(int number) {
  const auto* const found = std::ranges::find(data_types, number, &DataType::number);
  return found == std::end(data_types) ? nullptr : found;
}

enum class Field { float_data, int32_data, int64_data, double_data, uint64_data };

Field typed_field(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return Field::float_data;
    case DType::f64:
      return Field::double_data;
    case DType::i64:
      return Field::int64_data;
    case DType::u32:
    case DType::u64:
      return Field::uint64_data;
    default:
      return Field::int32_data;  // everything below 32 bits, as bits or as numbers
  }
}

// Entries of all typed fields but string_data.
int64_t typed_entries(const TensorProto& proto) {
  return int64_t{proto.float_data_size()} + proto.int32_data_size() + proto.int64_data_size() +
         proto.double_data_size() + proto.uint64_data_size();
}

std::pair<int64_t, std::string_view> entries(const TensorProto& proto, Field field) {
  switch (field) {
    case Field::float_data:
      return {proto.float_data_size(), "float_data"};
    case Field::int32_data:
      return {proto.int32_data_size(), "int32_data"};
    case Field::int64_data:
      return {proto.int64_data_size(), "int64_data"};
    case Field::double_data:
      return {proto.double_data_size(), "double_data"};
    case Field::uint64_data:
      return {proto.uint64_data_size(), "uint64_data"};
  }
  check_failed(__FILE__, __LINE__, "a known field");
}

struct Range {
  int64_t min;
  int64_t max;
};

// What an entry of int32_data may be: a number, or the bits of a float.
Range int32_data_range(DType dtype) {
  if (dtype == DType::boolean) return {0, 1};
  if (is_signed_integer(dtype)) {
    const int64_t half = int64_t{1} << (8 * byte_size(dtype) - 1);
    return {-half, half - 1};
  }
  return {0, (int64_t{1} << (8 * byte_size(dtype))) - 1};
}

Result<void> copy_int32_data(const TensorProto& proto, Tensor& tensor) {
  const Range range = int32_data_range(tensor.dtype());
  for (int i = 0; i < proto.int32_data_size(); ++i) {
    const int32_t value = proto.int32_data(i);
    if (value < range.min || value > range.max) {
      return fail(ErrorKind::invalid, fmt::format("int32_data[{}] is {}, outside of {} to {} for {}", i, value,
                                                  range.min, range.max, name(tensor.dtype())));
    }
    tensor.set_bits(i, static_cast<uint64_t>(int64_t{value}));
  }
  return {};
}

Result<void> copy_uint64_data(const TensorProto& proto, Tensor& tensor) {
  const uint64_t max =
      tensor.dtype() == DType::u32 ? std::numeric_limits<uint32_t>::max() : std::numeric_limits<uint64_t>::max();
  for (int i = 0; i < proto.uint64_data_size(); ++i) {
    if (proto.uint64_data(i) > max) {
      return fail(ErrorKind::invalid, fmt::format("uint64_data[{}] is {}, above {} for {}", i, proto.uint64_data(i),
                                                  max, name(tensor.dtype())));
    }
    tensor.set_bits(i, proto.uint64_data(i));
  }
  return {};
}

Result<void> copy_typed(const TensorProto& proto, Field field, Tensor& tensor) {
  switch (field) {
    case Field::float_data:
      std::ranges::copy(proto.float_data(), tensor.data<float>());
      return {};
    case Field::double_data:
      std::ranges::copy(proto.double_data(), tensor.data<double>());
      return {};
    case Field::int64_data:
      std::ranges::copy(proto.int64_data(), tensor.data<int64_t>());
      return {};
    case Field::int32_data:
      return copy_int32_data(proto, tensor);
    case Field::uint64_data:
      return copy_uint64_data(proto, tensor);
  }
  check_failed(__FILE__, __LINE__, "a known field");
}

Result<Tensor> tensor_of_bytes(DType dtype, const Shape& shape, size_t needed, std::span<const std::byte> bytes,
                               std::string_view source) {
  if (bytes.size() != needed) {
    return fail(ErrorKind::invalid, fmt::format("{} has {} bytes, but shape {} of {} needs {}", source, bytes.size(),
                                                to_string(shape), name(dtype), needed));
  }
  if (dtype == DType::boolean &&
      std::ranges::any_of(bytes, [](std::byte value) { return std::to_integer<int>(value) > 1; })) {
    return fail(ErrorKind::invalid, fmt::format("{} has a boolean that is neither 0 nor 1", source));
  }
  return Tensor(dtype, shape, bytes);
}

Result<DType> read_data_type(const TensorProto& proto) {
  const int number = proto.data_type();
  if (number == TensorProto::UNDEFINED) return fail(ErrorKind::invalid, "the tensor has no data type");
  if (const std::optional<DType> dtype = dtype_from_onnx(number)) return *dtype;
  return fail(ErrorKind::unsupported, fmt::format("data type {} is not supported", onnx_data_type_name(number)));
}

Result<Shape> read_shape(const TensorProto& proto, DType dtype) {
  if (proto.dims_size() > max_rank) {
    return fail(ErrorKind::unsupported,
                fmt::format("the tensor has {} dimensions, at most {} are supported", proto.dims_size(), max_rank));
  }
  const Shape shape(std::span(proto.dims().data(), static_cast<size_t>(proto.dims_size())));
  const std::optional<int64_t> elements = checked_elements(shape.extents());
  if (!elements || *elements > max_tensor_bytes / static_cast<int64_t>(byte_size(dtype))) {
    return fail(ErrorKind::invalid, fmt::format("shape {} has a negative extent or is too large", to_string(shape)));
  }
  return shape;
}

Result<Tensor> convert(const TensorProto& proto, const OutsideData& outside) {
  if (proto.has_segment()) return fail(ErrorKind::unsupported, "a tensor in several segments is not supported");
  LOW_TRY(const DType dtype, read_data_type(proto));
  LOW_TRY(const Shape shape, read_shape(proto, dtype));
  const int64_t elements = shape.elements();
  const size_t needed = static_cast<size_t>(elements) * byte_size(dtype);

  const std::span<const std::byte> raw = outside.raw.empty() ? std::as_bytes(std::span(proto.raw_data())) : outside.raw;
  const int64_t typed = typed_entries(proto);
  if (proto.string_data_size() > 0) {
    return fail(ErrorKind::invalid, fmt::format("a tensor of {} has string_data", name(dtype)));
  }
  if (proto.data_location() == TensorProto::EXTERNAL) {
    if (!raw.empty() || typed > 0) return fail(ErrorKind::invalid, "data is both external and inside of the message");
    return tensor_of_bytes(dtype, shape, needed, outside.external, "the external data");
  }
  if (!raw.empty() && typed > 0) return fail(ErrorKind::invalid, "data is both in raw_data and in a typed field");
  if (!raw.empty()) return tensor_of_bytes(dtype, shape, needed, raw, "raw_data");

  const Field field = typed_field(dtype);
  const auto [count, field_name] = entries(proto, field);
  if (count != typed) {
    return fail(ErrorKind::invalid,
                fmt::format("data is in another field than {}, where {} belongs", field_name, name(dtype)));
  }
  if (count != elements) {
    return fail(ErrorKind::invalid, fmt::format("{} has {} entries and raw_data none, but shape {} needs {}",
                                                field_name, count, to_string(shape), elements));
  }
  Tensor tensor(dtype, shape);
  LOW_TRY_VOID(copy_typed(proto, field, tensor));
  return tensor;
}

}  // namespace

std::optional<DType> dtype_from_onnx(int data_type) {
  const DataType* const found = find_data_type(data_type);
  return found == nullptr ? std::nullopt : found->dtype;
}

int dtype_to_onnx(DType dtype) {
  const auto* const found = std::ranges::find(data_types, std::optional(dtype), &DataType::dtype);
  LOW_CHECK(found != std::end(data_types));
  return found->number;
}

std::string onnx_data_type_name(int data_type) {
  const DataType* const found = find_data_type(data_type);
  return found == nullptr ? fmt::format("{} (unknown)", data_type) : std::string(found->name);
}

Result<Tensor> tensor_from_proto(const onnx::TensorProto& proto, std::string_view what, const OutsideData& outside) {
  Result<Tensor> tensor = convert(proto, outside);
  if (!tensor) return in_context(what, tensor.error());
  return tensor;
}

void tensor_to_proto(const Tensor& tensor, onnx::TensorProto& proto) {
  proto.clear_dims();
  for (const int64_t extent : tensor.shape()) proto.add_dims(extent);
  proto.set_data_type(dtype_to_onnx(tensor.dtype()));
  const std::span<const std::byte> bytes = tensor.bytes();
  proto.set_raw_data(bytes.data(), bytes.size());
}

Result<NamedTensor> parse_tensor_proto(std::span<const std::byte> bytes, std::string_view what) {
  if (bytes.size() > static_cast<size_t>(std::numeric_limits<int>::max())) {
    return fail(ErrorKind::unsupported,
                fmt::format("{}: a protobuf message of {} bytes, at most 2 GiB are possible", what, bytes.size()));
  }
  TensorProto proto;
  if (!proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return fail(ErrorKind::invalid, fmt::format("{}: not an ONNX TensorProto", what));
  }
  if (proto.data_location() == TensorProto::EXTERNAL) {
    return fail(ErrorKind::unsupported,
                fmt::format("{}: the tensor's data lies in another file, expected it inside", what));
  }
  LOW_TRY(Tensor tensor, tensor_from_proto(proto, what, {}));
  return NamedTensor{proto.name(), std::move(tensor)};
}

std::string serialize_tensor_proto(const NamedTensor& tensor) {
  TensorProto proto;
  tensor_to_proto(tensor.tensor, proto);
  proto.set_name(tensor.name);
  std::string text;
  LOW_CHECK(proto.SerializeToString(&text));
  return text;
}

}  // namespace low
