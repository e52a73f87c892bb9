// Which tile a workgroup of a GPU is, for kernels and for what runs them without a GPU. Workgroups whose numbers differ by
// the number of clusters share a cluster, as GPUs deal them out; tiles that are neighbours do.
#pragma once

namespace low::device {

[[gnu::always_inline]] constexpr unsigned tile_of_workgroup(unsigned number, unsigned tiles, unsigned clusters) {
  if (tiles % clusters != 0) return number;
  return number % clusters * (tiles / clusters) + number / clusters;
}
constexpr unsigned workgroup_of_tile(unsigned tile, unsigned tiles, unsigned clusters) {
  return tile_of_workgroup(tile, tiles, tiles % clusters == 0 ? tiles / clusters : clusters);
}

}  // namespace low::device
