#include <span>
#include <string_view>

#include "compiler/frontend/importer.h"

namespace low {
namespace {

constexpr std::span<const OperatorInfo> (*tables[])() = {
    activation_operators,    attention_operators, constant_operators, control_flow_operators,
    elementwise_operators,   indexing_operators,  matmul_operators,   movement_operators,
    normalization_operators, quantize_operators,  reduce_operators,   rotary_embedding_operators,
    scatter_operators,       slicing_operators,
};

}  // namespace

const OperatorInfo* find_operator(std::string_view domain, std::string_view name, int64_t opset) {
  const OperatorInfo* best = nullptr;
  for (const auto table : tables) {
    for (const OperatorInfo& info : table()) {
      if (info.domain == domain && info.name == name && info.since <= opset &&
          (best == nullptr || best->since < info.since))
        best = &info;
    }
  }
  return best;
}

}  // namespace low
