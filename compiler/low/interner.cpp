#include "compiler/low/interner.h"

#include "compiler/base/hash.h"

namespace low {
size_t InternHash::operator()(const TensorType& value) const {
  return WordHash().add(value.dtype).add_list(value.extents).result();
}

size_t InternHash::operator()(const Geometry& value) const {
  return WordHash().add_list(value.extents).add_list(value.strides).result();
}

size_t InternHash::operator()(const KernelContract& value) const { return hash_of(value); }

size_t InternHash::operator()(const CopyDescriptor& value) const {
  return WordHash()
      .add(value.source)
      .add(value.destination)
      .add(value.overflow)
      .add_list(value.counts)
      .add_list(value.source_strides)
      .add_list(value.destination_strides)
      .add(value.chunk)
      .result();
}

}  // namespace low
