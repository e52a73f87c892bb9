// RotaryEmbedding: pairs of elements of each head are rotated by an angle that belongs to the token's position.
#include <fmt/format.h>

#include "compiler/frontend/importer.h"
#include "compiler/frontend/terms.h"

namespace low {
namespace {

struct Request {
  Shape shape;  // of the input with four axes
  int heads_axis = 1, rows_axis = 2;
  int64_t rotated = 0;  // elements of a head that are rotated: the first ones
  bool interleaved = false;
};

Result<Request> request_of(const Node& node) {
  const ModelValue& x = node.input(0);
  if (!is_float(x.dtype()) || is_fp8(x.dtype()) || (x.rank() != 3 && x.rank() != 4)) {
    return node.invalid(fmt::format("input 0 is {}, floats with 3 or 4 axes are expected", to_string(x.type)));
  }
  Request r;
  LOW_TRY(const int64_t heads, node.integer("num_heads", 0));
  r.shape = x.shape();
  if (x.rank() == 3) {
    const int64_t width = x.shape()[2];
    if (heads < 1 || width % heads != 0) {
      return node.invalid(fmt::format("num_heads is {}, a divisor of {} is expected", heads, width));
    }
    r.shape = Shape{x.shape()[0], x.shape()[1], heads, width / heads};
    r.heads_axis = 2;
    r.rows_axis = 1;
  }
  LOW_TRY(const int64_t rotated, node.integer("rotary_embedding_dim", 0));
  r.rotated = rotated == 0 ? r.shape[3] : rotated;
  if (r.rotated < 0 || r.rotated > r.shape[3] || r.rotated % 2 != 0) {
    return node.invalid(
        fmt::format("{} of {} elements are rotated, an even number of them is expected", r.rotated, r.shape[3]));
  }
  LOW_TRY(const int64_t interleaved, node.integer("interleaved", 0));
  r.interleaved = interleaved != 0;
  return r;
}

// Cosines (input 1) or sines (input 2) of each token, shaped to broadcast to the halves that are rotated.
Result<ModelValue> table(Node& node, const Request& r, int i) {
  ModelValue values = node.input(i);
  const int64_t batch = r.shape[0];
  const int64_t rows = r.shape[r.rows_axis];
  const int64_t half = r.rotated / 2;
  const auto wrong = [&](std::string_view expected) {
    return node.invalid(fmt::format("input {} is {}, {} is expected", i, to_string(node.input(i).type), expected));
  };
  if (!is_float(values.dtype()) || is_fp8(values.dtype())) return wrong("a table of floats");
  if (node.has(3)) {
    const ModelValue& positions = node.input(3);
    if (positions.type != Type{DType::i64, {batch, rows}}) {
      return node.invalid(fmt::format("input 3 is {}, {} is expected", to_string(positions.type),
                                      to_string(Type{DType::i64, {batch, rows}})));
    }
    const bool read = positions.shape().elements() > 0;
    if (values.rank() != 2 || values.shape()[1] != half || (read && values.shape()[0] == 0)) {
      return wrong(fmt::format("[positions,{}]", half));
    }
    if (positions.constant) {
      for (int64_t j = 0; j < positions.constant->elements(); ++j) {
        const int64_t position = positions.constant->integer(j);
        if (position < -values.shape()[0] || position >= values.shape()[0]) {
          return node.invalid(fmt::format("position {} is out of range for {}", position, to_string(values.type)));
        }
      }
    }
    LOW_TRY(values, node.emit().gather(Gather{.axis = 0}, values, positions));
  } else if (values.shape() != Shape{batch, rows, half}) {
    return wrong(to_string(Shape{batch, rows, half}));
  }
  Shape shape = r.shape;
  shape[r.heads_axis] = 1;
  shape[3] = half;
  return node.emit().reshape(values, shape);
}

// (a, b) becomes (cos a - sin b, sin a + cos b). Pairs: element i of each half of what is rotated, or neighbours if
// interleaved.
Handled import_rotary_embedding(Node& node) {
  LOW_TRY(const Request r, request_of(node));
  Emitter& emit = node.emit();
  LOW_TRY(const ModelValue x, emit.reshape(node.input(0), r.shape));
  LOW_TRY(const ModelValue cosines, table(node, r, 1));
  LOW_TRY(const ModelValue sines, table(node, r, 2));
  const int64_t half = r.rotated / 2;
  Shape half_shape = r.shape;
  half_shape[3] = half;
  const int64_t step = r.interleaved ? 2 : 1;
  const auto cut = [&](int64_t start, int64_t stride, int64_t extent) {
    Shape shape = r.shape;
    shape[3] = extent;
    // What is not there cannot start.
    return emit.slice(x, Shape{0, 0, 0, extent == 0 ? 0 : start}, Shape{1, 1, 1, stride}, shape);
  };
  LOW_TRY(const ModelValue a, cut(0, step, half));
  LOW_TRY(const ModelValue b, cut(r.interleaved ? 1 : half, step, half));
  const auto rotate = [&](bool second) {
    Formula formula(4, compute_type(x.dtype()));
    const Term first_of_pair = formula.input(0, x.dtype());
    const Term second_of_pair = formula.input(1, x.dtype());
    const Term cosine = formula.input(2, cosines.dtype());
    const Term sine = formula.input(3, sines.dtype());
    const Term left = (second ? sine : cosine) * first_of_pair;
    const Term right = (second ? cosine : sine) * second_of_pair;
    const ModelValue operands[] = {a, b, cosines, sines};
    return emit.pointwise(std::move(formula).finish(second ? left + right : left - right, x.dtype()), operands);
  };
  ModelValue rotated[2];
  for (int i = 0; i < 2; ++i) {
    LOW_TRY(rotated[i], rotate(i == 1));
  }
  std::vector<ModelValue> parts;
  if (r.interleaved) {
    Shape column = half_shape;
    column.append(1);
    for (ModelValue& value : rotated) {
      LOW_TRY(value, emit.reshape(value, column));
    }
    LOW_TRY(const ModelValue pairs, emit.concat(rotated, 4));
    Shape shape = r.shape;
    shape[3] = r.rotated;
    LOW_TRY(parts.emplace_back(), emit.reshape(pairs, shape));
  } else {
    parts = {rotated[0], rotated[1]};
  }
  if (r.rotated < r.shape[3]) {
    LOW_TRY(parts.emplace_back(), cut(r.rotated, 1, r.shape[3] - r.rotated));
  }
  ModelValue y = parts[0];
  if (parts.size() > 1) {
    LOW_TRY(y, emit.concat(parts, 3));
  }
  return one(emit.reshape(y, node.input(0).shape()));
}

}  // namespace

std::span<const OperatorInfo> rotary_embedding_operators() {
  static constexpr OperatorInfo rows[] = {
      {"", "RotaryEmbedding", 23, 3, 4, 1, "interleaved num_heads rotary_embedding_dim", import_rotary_embedding},
  };
  return rows;
}

}  // namespace low
