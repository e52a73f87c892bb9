#include "compiler/workload/workload.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/workload/attention.h"
#include "compiler/workload/mlp.h"

namespace low {
namespace {

struct NamedMlp {
  std::string_view name;
  Mlp mlp;
};

// SigLIP so400m's MLP has 729 tokens of width 1152 and a hidden layer of 4304. One token alone is what a model that
// writes text computes at a time. The tiny ones keep the odd sizes.
constexpr NamedMlp mlps[] = {
    {"mlp-b1", {.batch = 1, .tokens = 729, .width = 1152, .hidden = 4304}},
    {"mlp-b1-f16", {.batch = 1, .tokens = 729, .width = 1152, .hidden = 4304, .numbers = Numbers::f16}},
    {"mlp-b1-i8", {.batch = 1, .tokens = 729, .width = 1152, .hidden = 4304, .numbers = Numbers::i8}},
    {"mlp-b1-f32", {.batch = 1, .tokens = 729, .width = 1152, .hidden = 4304, .numbers = Numbers::f32}},
    {"mlp-b2-repeat3", {.batch = 2, .tokens = 729, .width = 1152, .hidden = 4304, .blocks = 3, .scan = true}},
    {"mlp-b2-repeat3-f32",
     {.batch = 2, .tokens = 729, .width = 1152, .hidden = 4304, .numbers = Numbers::f32, .blocks = 3, .scan = true}},
    {"mlp-row1", {.batch = 1, .tokens = 1, .width = 1152, .hidden = 4304}},
    {"mlp-row1-f32", {.batch = 1, .tokens = 1, .width = 1152, .hidden = 4304, .numbers = Numbers::f32}},
    {"tiny-mlp-b1", {.batch = 1, .tokens = 9, .width = 24, .hidden = 40}},
    {"tiny-mlp-b2-repeat3", {.batch = 2, .tokens = 9, .width = 24, .hidden = 40, .blocks = 3, .scan = true}},
    {"tiny-mlp-row1", {.batch = 1, .tokens = 1, .width = 24, .hidden = 40}},
    {"tiny-mlp-i8", {.batch = 1, .tokens = 9, .width = 24, .hidden = 40, .numbers = Numbers::i8}},
    {"tiny-mlp-f32", {.batch = 1, .tokens = 9, .width = 24, .hidden = 40, .numbers = Numbers::f32}},
};

struct NamedAttention {
  std::string_view name;
  AttentionBlock block;
};

// SigLIP so400m's attention has 16 heads of 72. The names say which algorithm a model is to measure: it is the same
// model, with the attention as one operation or in parts.
constexpr AttentionBlock siglip{.tokens = 729, .heads = 16, .head = 72, .value_gain = 17};
constexpr AttentionBlock tiny{.tokens = 13, .heads = 3, .head = 5, .value_gain = 9};
constexpr AttentionBlock form(AttentionBlock block, Numbers numbers, bool decomposed) {
  block.numbers = numbers;
  block.decomposed = decomposed;
  return block;
}
constexpr NamedAttention attentions[] = {
    {"flash-attention-b1", form(siglip, Numbers::fp8, false)},
    {"flash-attention-b1-f16", form(siglip, Numbers::f16, false)},
    {"flash-attention-b1-f32", form(siglip, Numbers::f32, false)},
    {"materialized-attention-b1", form(siglip, Numbers::fp8, true)},
    {"materialized-attention-b1-f16", form(siglip, Numbers::f16, true)},
    {"materialized-attention-b1-f32", form(siglip, Numbers::f32, true)},
    {"tiny-flash-attention-b1", form(tiny, Numbers::fp8, false)},
    {"tiny-flash-attention-f32", form(tiny, Numbers::f32, false)},
    {"tiny-materialized-attention-b1", form(tiny, Numbers::fp8, true)},
    {"tiny-materialized-attention-f32", form(tiny, Numbers::f32, true)},
};

// Below protobuf's limit of 2 GiB by more than the nodes of a block.
constexpr int64_t most_bytes = 2'000'000'000;
constexpr int64_t most_blocks = 10'000;

}  // namespace

Result<std::string> make_workload(std::string_view name, const WorkloadOptions& options) {
  for (const NamedMlp& known : mlps) {
    if (known.name != name) continue;
    Mlp mlp = known.mlp;
    if (options.repeat && options.unrolled) {
      return fail(ErrorKind::usage, "a workload is either repeated or unrolled, not both");
    }
    if (options.repeat || options.unrolled) {
      mlp.scan = options.repeat.has_value();
      mlp.blocks = options.repeat ? *options.repeat : *options.unrolled;
    }
    Mlp block = mlp;
    block.blocks = 1;
    const int64_t most = std::min(most_blocks, most_bytes / weight_bytes(block));
    if (mlp.blocks < 0 || mlp.blocks > most) {
      return fail(ErrorKind::usage,
                  fmt::format("{} blocks of {} are not possible, 0 to {} are", mlp.blocks, name, most));
    }
    return make_mlp(mlp);
  }
  for (const NamedAttention& known : attentions) {
    if (known.name != name) continue;
    if (options.repeat || options.unrolled) {
      return fail(ErrorKind::usage, fmt::format("{} has one block, which cannot be repeated or unrolled", name));
    }
    return make_attention(known.block);
  }
  return fail(ErrorKind::usage,
              fmt::format("there is no workload \"{}\"; there are {}", name, fmt::join(workload_names(), ", ")));
}

std::vector<std::string> workload_names() {
  std::vector<std::string> names;
  for (const NamedMlp& known : mlps) names.emplace_back(known.name);
  for (const NamedAttention& known : attentions) names.emplace_back(known.name);
  return names;
}

}  // namespace low
