#include "compiler/interpret/groups.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "compiler/interpret/kernels.h"

namespace low {
namespace {

uint64_t width_mask(DType dtype) {
  const size_t bytes = byte_size(dtype);
  return bytes == 8 ? ~uint64_t{0} : (uint64_t{1} << (8 * bytes)) - 1;
}

int64_t signed_value(DType dtype, uint64_t bits) {
  const int shift = 64 - 8 * static_cast<int>(byte_size(dtype));
  return static_cast<int64_t>(bits << shift) >> shift;
}

// Whether a is less than b; no NaN.
bool less_than(DType dtype, uint64_t a, uint64_t b) {
  if (is_float(dtype)) return decode(dtype, a) < decode(dtype, b);
  return is_signed_integer(dtype) ? signed_value(dtype, a) < signed_value(dtype, b) : a < b;
}

bool is_not_a_number(DType dtype, uint64_t bits) { return is_float(dtype) && std::isnan(decode(dtype, bits)); }

// The largest or smallest: a NaN if there is one.
uint64_t extreme(DType dtype, bool largest, std::span<const uint64_t> values) {
  uint64_t best;
  if (values.empty()) {
    if (is_float(dtype)) {
      constexpr double endless = std::numeric_limits<double>::infinity();
      return encode(dtype, largest ? -endless : endless, Overflow::propagate);
    }
    if (dtype == DType::boolean) return largest ? 0 : 1;
    const uint64_t top = uint64_t{1} << (8 * byte_size(dtype) - 1);
    if (is_signed_integer(dtype)) return largest ? top : top - 1;
    return largest ? 0 : width_mask(dtype);
  }
  best = values[0];
  for (const uint64_t value : values) {
    if (is_not_a_number(dtype, best)) break;
    if (is_not_a_number(dtype, value) || (largest ? less_than(dtype, best, value) : less_than(dtype, value, best)))
      best = value;
  }
  return best;
}

uint64_t combined(const ReduceKernel& kernel, std::span<const uint64_t> values) {
  const Reduce::Kind kind = kernel.kind;
  const DType dtype = kernel.accumulate;
  const bool largest = kind == Reduce::Kind::max || kind == Reduce::Kind::index_max;
  if (kind != Reduce::Kind::sum && kind != Reduce::Kind::product) {
    const uint64_t best = extreme(dtype, largest, values);
    if (!kernel.is_index()) return best;
    uint64_t index = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const bool nan = is_not_a_number(dtype, best);
      const bool equal = nan ? is_not_a_number(dtype, values[i])
                             : !less_than(dtype, best, values[i]) && !less_than(dtype, values[i], best) &&
                                   !is_not_a_number(dtype, values[i]);
      if (!equal) continue;
      index = i;
      if (!kernel.last) break;
    }
    return index;
  }
  const bool product = kind == Reduce::Kind::product;
  if (is_float(dtype)) {
    double total = product ? 1 : 0;
    for (const uint64_t value : values) {
      const double x = decode(dtype, value);
      total = product ? total * x : total + x;
    }
    return encode(dtype, total, Overflow::propagate);
  }
  uint64_t total = product ? 1 : 0;
  for (const uint64_t value : values) total = product ? total * value : total + value;
  if (dtype == DType::boolean) return total != 0 ? 1 : 0;
  return total & width_mask(dtype);
}

struct Groups {
  size_t count, size;
};
Groups groups_of(const KernelContract& contract, const Shape& extents) {
  return {static_cast<size_t>(outer_extents(contract, extents).elements()),
          static_cast<size_t>(inner_extents(contract, extents).elements())};
}

}  // namespace

std::vector<uint64_t> leading(const KernelContract& contract, const Shape& extents, const ReduceKernel& kernel,
                              std::span<const std::vector<uint64_t>> operands) {
  const std::span<const uint64_t> x = operands[0];
  const Groups groups = groups_of(contract, extents);
  const Converter convert(contract.operands[0].dtype, kernel.accumulate, Overflow::propagate);
  std::vector<uint64_t> mapped;
  mapped.reserve(x.size());
  for (const uint64_t element : x)
    mapped.push_back(kernel.map ? evaluate(*kernel.map, std::span(&element, 1)) : convert(element));
  std::vector<uint64_t> result;
  for (size_t i = 0; i < groups.count; ++i)
    result.push_back(combined(kernel, std::span(mapped).subspan(i * groups.size, groups.size)));
  return result;
}

std::vector<uint64_t> leading(const KernelContract& contract, const Shape& extents, const RowwiseKernel& kernel,
                              std::span<const std::vector<uint64_t>> operands) {
  const std::span<const uint64_t> x = operands[0];
  const Groups groups = groups_of(contract, extents);
  const Rowwise::Kind kind = kernel.kind;
  const DType dtype = contract.operands[0].dtype;
  std::vector<uint64_t> result;
  result.reserve(x.size());
  std::vector<double> row(groups.size);
  for (size_t i = 0; i < groups.count; ++i) {
    for (size_t j = 0; j < groups.size; ++j) row[j] = decode(dtype, x[i * groups.size + j]);
    const auto n = static_cast<double>(groups.size);
    if (kind != Rowwise::Kind::layer_norm && kind != Rowwise::Kind::rms_norm) {
      constexpr double nothing = -std::numeric_limits<double>::infinity();
      const bool masked = kind == Rowwise::Kind::masked_softmax;
      double largest = nothing, sum = 0;
      for (const double value : row) largest = std::max(largest, value);
      // With a maximum of 0 in place of -infinity, all terms are 0, and so is what becomes of them.
      if (masked && largest == nothing) largest = 0;
      for (const double value : row) sum += std::exp(value - largest);
      if (masked && sum == 0) sum = 1;
      for (double& value : row)
        value = kind == Rowwise::Kind::log_softmax ? value - largest - std::log(sum) : std::exp(value - largest) / sum;
    } else {
      double mean = 0, square = 0;
      if (kind == Rowwise::Kind::layer_norm) {
        for (const double value : row) mean += value / n;
      }
      for (const double value : row) square += (value - mean) * (value - mean) / n;
      for (double& value : row) value = (value - mean) / std::sqrt(square + kernel.epsilon);
    }
    for (const double value : row) result.push_back(encode(kernel.accumulate, value, Overflow::propagate));
  }
  return result;
}

std::vector<uint64_t> leading(const KernelContract& contract, const Shape& extents, const CumulativeKernel& kernel,
                              std::span<const std::vector<uint64_t>> operands) {
  const std::span<const uint64_t> x = operands[0];
  const Groups groups = groups_of(contract, extents);
  const DType dtype = contract.operands[0].dtype;
  const Converter in(dtype, kernel.accumulate, Overflow::propagate);
  const Converter out(kernel.accumulate, contract.operands[1].dtype, Overflow::propagate);
  std::vector<uint64_t> result(x.size());
  for (size_t i = 0; i < groups.count; ++i) {
    double total = 0;
    uint64_t integers = 0;
    for (size_t step = 0; step < groups.size; ++step) {
      const size_t at = i * groups.size + (kernel.reverse ? groups.size - 1 - step : step);
      const uint64_t element = in(x[at]);
      const auto sum = [&] {
        return is_float(kernel.accumulate) ? encode(kernel.accumulate, total, Overflow::propagate)
                                           : integers & width_mask(kernel.accumulate);
      };
      if (kernel.exclusive) result[at] = out(sum());
      if (is_float(kernel.accumulate)) total += decode(kernel.accumulate, element);
      integers += element;
      if (!kernel.exclusive) result[at] = out(sum());
    }
  }
  return result;
}

std::vector<uint64_t> leading(const KernelContract& contract, const Shape& extents, const TopKKernel& kernel,
                              std::span<const std::vector<uint64_t>> operands) {
  const std::span<const uint64_t> x = operands[0];
  const DType dtype = contract.operands[0].dtype;
  const Shape group = inner_extents(contract, extents);
  const auto size = static_cast<size_t>(group[0]), kept = static_cast<size_t>(group[1]);
  const auto count = static_cast<size_t>(outer_extents(contract, extents).elements());
  std::vector<uint64_t> result;
  for (size_t i = 0; i < count && kept > 0; ++i) {
    const std::span<const uint64_t> row = x.subspan(i * size, size);
    const auto before = [&](uint64_t a, uint64_t b) {
      const bool a_nan = is_not_a_number(dtype, row[a]), b_nan = is_not_a_number(dtype, row[b]);
      if (a_nan != b_nan) return kernel.smallest == b_nan;
      if (a_nan) return a < b;
      const bool less = less_than(dtype, row[a], row[b]), more = less_than(dtype, row[b], row[a]);
      if (less || more) return kernel.smallest ? less : more;
      return a < b;
    };
    std::vector<uint64_t> places(size);
    std::iota(places.begin(), places.end(), uint64_t{0});
    std::ranges::sort(places, before);
    result.insert(result.end(), places.begin(), places.begin() + static_cast<std::ptrdiff_t>(kept));
  }
  return result;
}

}  // namespace low
